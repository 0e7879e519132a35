"""The plugin ``preflight``, with programs that print what those of the makers of GPUs do, as none is here."""

from pathlib import Path
from typing import Any

import pytest

from pai_plugin_kit import conformance
from pai_preflight import checks
from tests.plugin_factory import write_policy
from tests.support import cli, exit_record, job, runtime_log, write_job

test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance("preflight"))

SPACE = {"diskMB": 0, "shmMB": 0}
GONE = "Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system to recover"
CARDS = (
    'WARNING: AMD GPU device(s) is/are in a low-power state.\n{"card0": {"GPU ID": "0x74a1"}, "system": {}}'
)


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def found(given: dict[str, Any], requested: int = 0) -> list[str]:
    return [name for name, _ in checks.faults({**SPACE, **given}, requested)]


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "script", "gpus", "expected"),
    [
        ("nvidia-smi", "echo '0, 0'; echo '1, 0'", 2, []),
        ("nvidia-smi", "echo '0, [N/A]'", 1, []),
        ("nvidia-smi", "echo '0, 0'", 2, ["PreflightGpu"]),
        ("nvidia-smi", "echo '0, 0'; echo '1, 3'", 2, ["PreflightGpuMemory"]),
        ("nvidia-smi", f"echo '{GONE}'; exit 15", 1, ["PreflightGpu"]),
        ("nvidia-smi", "exec sleep 1000", 1, ["PreflightGpu"]),
        ("rocm-smi", f"echo '{CARDS}'", 1, []),
        ("rocm-smi", f"echo '{CARDS}'", 2, ["PreflightGpu"]),
        ("rocm-smi", "echo 'ERROR: no amdgpu'", 1, ["PreflightGpu"]),
    ],
)
def test_gpus_are_as_many_as_requested_answer_and_have_no_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str, gpus: int, expected: list[str]
) -> None:
    program(tmp_path, name, script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(checks, "_SECONDS", 1 if "sleep" in script else 60)
    assert found({}, gpus) == expected
    assert found({"gpus": gpus}) == expected


def test_an_image_without_programs_for_gpus_is_wrong_only_if_the_job_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found({}, 8) == []
    assert found({"gpus": 1}) == ["PreflightGpu"]
    assert found({"gpus": 0}, 8) == []


def test_space_and_storages_are_enough_or_named(tmp_path: Path) -> None:
    assert found({"diskMB": 1, "shmMB": 1, "writable": [str(tmp_path)]}) == []
    assert list(tmp_path.iterdir()) == []
    most = 1 << 50
    assert found({"diskMB": most, "shmMB": most}) == ["PreflightDisk", "PreflightSharedMemory"]
    assert found({"writable": [str(tmp_path / "none"), "/proc"]}) == ["PreflightStorage"] * 2


@pytest.mark.process
@pytest.mark.parametrize(
    ("parameters", "code", "phrase", "behavior"),
    [
        ({"diskMB": 1 << 50, "shmMB": 0}, 251, "PreflightDisk", "TRANSIENT"),
        ({"diskMB": 0, "shmMB": 1 << 50}, 247, "PreflightSharedMemory", "PERMANENT"),
        ({**SPACE, "gpus": 99}, 251, "PreflightGpu", "TRANSIENT"),
        ({**SPACE, "writable": ["/there-is-none"]}, 251, "PreflightStorage", "TRANSIENT"),
    ],
)
def test_a_task_does_not_start_where_it_cannot_run_and_its_record_says_why(
    tmp_path: Path, parameters: dict[str, Any], code: int, phrase: str, behavior: str
) -> None:
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "preflight", "parameters": parameters}]}
    path = write_job(tmp_path, job(worker={"commands": ["touch started"]}, extras=extras))
    cli("run", path, "--plain", "--out", tmp_path / "run")
    task = tmp_path / "run/worker/0"
    record = exit_record(task)
    assert (record["exitCode"], record["phrase"], record["behavior"]) == (code, phrase, behavior)
    assert record["outcome"] == "setup-failed"
    assert any(line.startswith(f"preflight: {phrase}: ") for line in runtime_log(task))
    assert not (task / "work/started").exists()


@pytest.mark.process
def test_an_operator_puts_it_on_by_default(tmp_path: Path) -> None:
    allowed = {
        f"com.microsoft.pai.runtimeplugin.{name.replace('-', '_')}": f"pai-{name}"
        for name in ("preflight", "failure-analysis")
    }
    rules = [{"id": id_, "distribution": name, "versions": "*"} for id_, name in allowed.items()]
    policy = write_policy(tmp_path, {**rules[0], "default": True}, rules[1])
    path = write_job(tmp_path, job(extras={"preflight": {"diskMB": 1 << 50}}))
    ended = cli("run", path, "--policy", policy, "--out", tmp_path / "run")
    assert ended.returncode == 251
    assert exit_record(tmp_path / "run/worker/0")["phrase"] == "PreflightDisk"
