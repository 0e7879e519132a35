"""What is gathered of a failed task: logs over rotated files, the disk, and GPUs by a pretended nvidia-smi.

The machines that run these tests have no GPU, so that what ``nvidia-smi`` prints is written by hand after
what it prints elsewhere; how it is started, waited for and ended is real.
"""

import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_failure_analysis import gathering, gpu
from pai_failure_analysis.gathering import gather_evidence
from pai_runtime.plugin import Failure, Task

OLD_ECC = """<volatile><single_bit><device_memory>3</device_memory><total>3</total></single_bit>
<double_bit><device_memory>{0}</device_memory><register_file>0</register_file><total>{0}</total></double_bit>
</volatile><aggregate><double_bit><total>9</total></double_bit></aggregate>"""
NEW_ECC = """<volatile>
<sram_correctable>4</sram_correctable><sram_uncorrectable>{1}</sram_uncorrectable>
<dram_correctable>5</dram_correctable><dram_uncorrectable>{0}</dram_uncorrectable>
</volatile><aggregate><dram_uncorrectable>9</dram_uncorrectable></aggregate>"""
NEWEST_ECC = """<volatile><sram_correctable>0</sram_correctable>
<sram_uncorrectable_parity>{1}</sram_uncorrectable_parity>
<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
<dram_uncorrectable>{0}</dram_uncorrectable></volatile>"""
LOST = "Unable to determine the device handle for GPU1: 0000:5F:00.0: Unknown Error"


def smi(*ecc: str) -> str:
    gpus = "".join(
        f'<gpu id="00000000:{n}:00.0"><ecc_errors>{each}</ecc_errors></gpu>' for n, each in enumerate(ecc)
    )
    return f'<?xml version="1.0" ?>\n<nvidia_smi_log>{gpus}</nvidia_smi_log>\n'


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put an executable nvidia-smi that does this first on PATH."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def says(folder: Path, text: str) -> str:
    """A script that prints a text."""
    (folder / "said").write_text(text)
    return f'[ "$*" = "-q -x" ] && cat {shlex.quote(str(folder))}/said'


@pytest.mark.process
@pytest.mark.parametrize(
    ("said", "log", "expected"),
    [
        (smi(OLD_ECC.format(0)), "", {}),
        (smi(OLD_ECC.format(0), OLD_ECC.format(2)), "", {"nvidiaDoubleEccError": True}),
        (smi(OLD_ECC.format("N/A")), "", {}),
        (smi(NEW_ECC.format(0, 0)), "", {}),
        (smi(NEW_ECC.format(0, 0), NEW_ECC.format(10, 0)), "", {"nvidiaDoubleEccError": True}),
        (smi(NEW_ECC.format(0, 1)), "", {"nvidiaDoubleEccError": True}),
        (smi(NEW_ECC.format("N/A", "N/A")), "", {}),
        (smi(NEWEST_ECC.format(0, 0)), "", {}),
        (smi(NEWEST_ECC.format(0, 7)), "", {"nvidiaDoubleEccError": True}),
        (LOST, "", {"nvidiaGpuLost": True}),
        (
            f"{LOST}\n{smi(NEW_ECC.format(1, 0))}"[:-80],
            "",
            {"nvidiaDoubleEccError": True, "nvidiaGpuLost": True},
        ),
        ("Unable to query: GPU is lost.  Reboot the system to recover this GPU", "", {"nvidiaGpuLost": True}),
        ("", "NVRM: Xid (PCI:0000:5f:00): 79, pid=1, GPU has fallen\n", {"nvidiaXid": [79]}),
        ("", "NVRM: Xid (PCI:0000:5f:00): 31, Ch 1\nNVRM: Xid (0000:03:00): 13, x", {"nvidiaXid": [13, 31]}),
        ("", "Xid errors: 0, xid 79", {}),
        ("<volatile>" * 50_000 + "<double_bit>" * 50_000, "", {}),
        ('<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><nvidia_smi_log>&c;</nvidia_smi_log>', "", {}),
    ],
)
def test_faults_of_gpus_are_found_in_what_nvidia_smi_and_the_log_say(
    said: str, log: str, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, says(tmp_path, said))
    assert gpu.find_gpu_faults(log.encode()) == expected


@pytest.mark.process
def test_without_nvidia_smi_nothing_is_known_of_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.find_gpu_faults(b"") == {}
    (tmp_path / "nvidia-smi").write_bytes(b"\x7fELF is not a program")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert gpu.find_gpu_faults(b"") == {}


@pytest.mark.process
def test_nvidia_smi_that_hangs_is_ended_with_all_that_it_started_and_what_it_said_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    alive = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    script = f"exec 3>{shlex.quote(str(fifo))}; trap '' TERM; echo '{LOST}'; sleep 1000 & sleep 1000"
    install(tmp_path, monkeypatch, script)
    monkeypatch.setattr(gpu, "SECONDS", 2.0)
    assert gpu.find_gpu_faults(b"") == {"nvidiaGpuLost": True}
    os.set_blocking(alive, True)
    assert os.read(alive, 1) == b""  # comes when nobody has it open any more
    os.close(alive)


@pytest.mark.process
def test_nvidia_smi_that_never_ends_to_talk_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "exec yes '<gpu>'")
    monkeypatch.setattr(gpu, "SECONDS", 100.0)
    assert gpu.find_gpu_faults(b"") == {}


@given(st.lists(st.sampled_from([b"<volatile>", b"</volatile>", b"<double_bit>", b"<total>", b"1", b"\xff"])))
def test_any_output_of_nvidia_smi_can_be_read(pieces: list[bytes]) -> None:
    said = b"".join(pieces)
    assert not gpu._has_double_bit_error(said) or b"<volatile>" in said


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setattr(gathering, "find_gpu_faults", lambda _: {})
    (tmp_path / "logs" / "user-all").mkdir(parents=True)
    return Task("job", "worker", 0, {"worker": 1}, {}, tmp_path)


def failure(**fields: object) -> Failure:
    return Failure(**{"outcome": "failed", "code": 1, "phase": "command", **fields})  # type: ignore[arg-type]


def test_what_the_supervisor_knows_is_evidence(task: Task) -> None:
    known = failure(user_code=3, signal=9, outcome="timeout", code=242, plugin="a.b", oom_kills=1)
    evidence = gather_evidence(task, known)
    assert (evidence.exit_code, evidence.signal, evidence.outcome) == (3, 9, "timeout")
    assert (evidence.plugin, evidence.oom_kills, evidence.phase) == ("a.b", 1, "command")
    assert gather_evidence(task, failure(code=240)).exit_code == 240


def test_the_last_10_mb_are_taken_over_rotated_files(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "LOG_BYTES", 10)
    log = task.folder / "logs" / "user-all" / "current"
    for name, text in (("", "789\n"), (".1", "456"), (".2", "xxx123"), (".3", "never")):
        log.with_name(f"current{name}").write_text(text)
    (task.folder / "logs" / "runtime.log").write_text("abcdefghijklmnop")
    evidence = gather_evidence(task, failure())
    assert (evidence.user_log, evidence.platform_log) == (b"123456789\n", b"ghijklmnop")
    log.unlink()
    assert gather_evidence(task, failure()).user_log == b"rxxx123456"


def test_the_last_10_mb_are_taken_over_files_that_are_named_as_multilog_does(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "LOG_BYTES", 10)
    log = task.folder / "logs" / "user-all" / "current"
    log.write_text("789\n")
    second, first = (f"@40000000{number:016x}.s" for number in (2, 1))
    for name, text in ((second, "456"), (first, "xxx123"), ("@other.s", "never")):
        log.with_name(name).write_text(text)
    assert gather_evidence(task, failure()).user_log == b"123456789\n"


def test_what_the_files_lack_is_in_the_tails(task: Task) -> None:
    (task.folder / "logs" / "runtime.log").write_text("written and here")
    evidence = gather_evidence(task, failure(tails=("only here", "and here")))
    assert (evidence.user_log, evidence.platform_log) == (b"\nonly here", b"written and here")


@pytest.mark.parametrize("kind", ["fifo", "endless", "itself", "folder"])
def test_what_a_task_has_put_in_the_place_of_its_log_is_no_log(task: Task, kind: str) -> None:
    log = task.folder / "logs" / "user-all" / "current"
    if kind == "fifo":
        os.mkfifo(log)
    elif kind == "folder":
        log.mkdir()
    else:
        log.symlink_to("/dev/zero" if kind == "endless" else log)
    assert gather_evidence(task, failure(tails=("the tail", ""))).user_log == b"\nthe tail"


def test_a_disk_without_bytes_or_files_is_full(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not gather_evidence(task, failure()).disk_full
    real = os.statvfs(task.folder)

    def pretend(**changes: int) -> bool:
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail")
        values = [changes.get(name, getattr(real, name)) for name in (*names, "f_flag", "f_namemax")]
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
        return gather_evidence(task, failure()).disk_full

    enough = {"f_frsize": 4096, "f_blocks": 10_000, "f_bavail": 1000, "f_files": 10, "f_favail": 5}
    assert not pretend(**enough)
    assert pretend(**enough | {"f_bavail": 10})
    assert not pretend(**enough | {"f_blocks": 500, "f_bavail": 10})
    assert pretend(**enough | {"f_blocks": 500, "f_bavail": 0})
    assert not pretend(**enough | {"f_blocks": 0, "f_bavail": 0})
    assert pretend(**enough | {"f_favail": 0})
    assert not pretend(**enough | {"f_favail": 0, "f_files": 0})
    assert not gather_evidence(Task("job", "worker", 0, {}, {}, task.folder / "none"), failure()).user_log
