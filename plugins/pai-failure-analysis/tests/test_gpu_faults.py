"""Each fault of a GPU that a driver reports has a rule, a meaning and advice; a burst is one cause."""

import re

import pytest

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.matching import Match, Matcher
from pai_failure_analysis.rules import shipped_rules
from pai_failure_analysis.xids import CATALOGUE, RESTART

IGNORED = (
    37,
    38,
    44,
    63,
    66,
    67,
    92,
    93,
    106,
    107,
    121,
    137,
    141,
    152,
    153,
    157,
    160,
    161,
    162,
    163,
    164,
    165,
)
"""Xids that NVIDIA says are to be ignored, or that only tell of power."""

MATCHER = Matcher(shipped_rules())


def line(xid: int) -> str:
    return f"[ 812.7] NVRM: Xid (PCI:0000:1b:00): {xid}, pid=4521, name=python3, Ch 00000008\n"


def match(log: str, xids: tuple[int, ...] = ()) -> Match | None:
    gpu = {"nvidiaXid": list(xids)} if xids else {}
    return MATCHER.first_match(Evidence(1, user_log=log.encode(), gpu=gpu))


@pytest.mark.parametrize("action", CATALOGUE)
def test_each_xid_has_its_meaning_and_nvidias_action(action: str) -> None:
    for xid, words in CATALOGUE[action].items():
        by_log, by_evidence = match(line(xid)), match("", (xid,))
        assert by_log, xid
        assert by_evidence, xid
        assert f"Xid {xid} ({words}). NVIDIA's immediate action: {action}." in by_log.rule.reason
        assert by_evidence.rule == by_log.rule
        advice = " ".join(by_log.rule.solution)
        elsewhere = re.search("on another machine", advice) is not None
        assert elsewhere is (action != RESTART or xid == 94), (xid, advice)


def test_xids_that_nvidia_says_to_ignore_are_no_cause() -> None:
    assert {xid for xid in IGNORED if match(line(xid)) or match("", (xid,))} == set()


def test_a_burst_is_one_cause_and_the_xid_that_follows_no_other_is_named_first() -> None:
    found = match("".join(map(line, [45] * 20 + [62, 45, 45, 119, 154] * 6)))
    assert found
    assert found.rule.reason.count("Xid") == 1
    named = re.findall(r"(\d+) \(", found.rule.reason.partition("Xid")[2])
    assert named == ["62", "119", "45", "154"]


@pytest.mark.parametrize(
    ("log", "phrase"),
    [
        ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 19084, Fatal, Link 12 AN1 Heartbeat", "GpuFabricFault"),
        ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20001, Non-fatal, Link 12 TX Replay Error", None),
        (
            "amdgpu 0000:c5:00.0: amdgpu: 2 uncorrectable hardware errors detected in gfx block",
            "AmdGpuMemoryError",
        ),
        ("amdgpu 0000:c5:00.0: amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=2", "AmdGpuReset"),
        ("HW Exception by GPU node-1 (Agent handle: 0x55) reason :GPU Hang", "AmdGpuReset"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB", "CudaOutOfMemory"),
        ("HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception.", "RocmError"),
        (
            "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory",
            "RocmMemoryFault",
        ),
        ("node7:1:1 [0] NCCL WARN HIP failure 'internal error'", "NcclCudaError"),
    ],
)
def test_what_switches_and_amd_gpus_report(log: str, phrase: str | None) -> None:
    found = match(f"{log}\n")
    assert (found.rule.phrase if found else None) == phrase
