"""A run that took a while has its report when it has ended, and nothing waits for that."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cli, job, until, write_job

pytestmark = pytest.mark.process

_AS_IF_LONG = """
import sys
from pai_runtime.cli import main, reporting
reporting.LEAST = 0
sys.exit(main())
"""
"""Runs a command line in which every run has taken long enough; a minute would be too long for a test."""


def _run(folder: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-c",
        _AS_IF_LONG,
        "run",
        write_job(folder, job(worker={"commands": ["true"]})),
        *options,
    ]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def _has_report(run: Path) -> bool:
    return (run / "report.html").is_file()


def test_a_run_that_took_a_while_has_its_report(tmp_path: Path) -> None:
    ended = _run(tmp_path, "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.endswith("report: run/report.html\n")
    until(lambda: _has_report(tmp_path / "run"))
    assert (tmp_path / "run/report.html").read_text().endswith("</html>")


def test_a_run_that_goes_on_without_its_terminal_has_one_too(tmp_path: Path) -> None:
    assert _run(tmp_path, "--detach", "--out", tmp_path / "run").returncode == 0
    until(lambda: _has_report(tmp_path / "run"))


@pytest.mark.parametrize("reason", ["switched off", "refused by a policy"])
def test_a_run_has_none_where_it_is_not_wanted(
    tmp_path: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "refused by a policy":
        policy = tmp_path / "policy.yaml"
        policy.write_text("policyVersion: 1\nplugins: []\n")
        monkeypatch.setenv("PAI_RUNTIME_POLICY", str(policy))
    ended = _run(tmp_path, "--out", tmp_path / "run", *(["--no-report"] if reason == "switched off" else []))
    assert ended.returncode == 0, ended.stderr
    assert "report" not in ended.stderr


def test_a_short_run_has_none(tmp_path: Path) -> None:
    ended = cli("run", write_job(tmp_path, job(worker={"commands": ["true"]})), cwd=tmp_path)
    assert (ended.returncode, "report" in ended.stderr) == (0, False)
