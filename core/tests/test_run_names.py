"""What people call a run: its name, its path, or ``latest``; the same in every command that takes one."""

from pathlib import Path

import pytest

from pai_runtime.runs.names import NoSuchRun, named_run
from tests.played_run import PlayedRun
from tests.support import cli_each


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def played(name: str, started: str = "2020-01-01T00:00:00Z") -> PlayedRun:
    run = PlayedRun(Path(name), worker=1)
    run.document["started"] = started
    run.all("succeeded", exitCode=0)
    run.end("succeeded")
    return run


def refusal(name: str) -> str:
    with pytest.raises(NoSuchRun) as raised:
        named_run(name)
    return str(raised.value)


def test_a_run_has_its_name_in_the_directory_of_runs_and_any_path() -> None:
    played(".pai-runs/hello-1")
    played("elsewhere/mine")
    played("here")
    for name, folder in {
        "hello-1": ".pai-runs/hello-1",
        ".pai-runs/hello-1": ".pai-runs/hello-1",
        "elsewhere/mine": "elsewhere/mine",
        "here": "here",
        "./here": "here",
        "..": "..",
        ".": ".",
    }.items():
        assert named_run(name) == Path(folder), name


def test_latest_is_the_run_that_was_started_last() -> None:
    played(".pai-runs/b-1", "2026-01-01T00:00:00Z")
    for number in (2, 9, 10):
        played(f".pai-runs/a-{number}", "2026-01-01T00:00:01Z")
    played(".pai-runs/c-99")
    Path(".pai-runs/half-100").mkdir()
    assert named_run("latest") == Path(".pai-runs/a-10")


def test_a_name_that_is_nearly_one_gets_those_that_are_near() -> None:
    assert ".pai-runs" in refusal("latest")
    for number in range(1, 12):
        played(f".pai-runs/hello-{number}")
    played(".pai-runs/other-1")
    assert "did you mean hello-11, hello-10, hello-9?" in refusal("hello")
    assert "hello-1" in refusal("helo-1")
    assert "did you mean" not in refusal("z")


def test_a_name_that_may_mean_two_runs_means_none() -> None:
    played(".pai-runs/hello-1")
    played("hello-1")
    assert "write .pai-runs/hello-1 or ./hello-1" in refusal("hello-1")
    played("latest")
    assert "write .pai-runs/hello-1 or ./latest" in refusal("latest")
    Path("other").mkdir()
    played(".pai-runs/other")
    assert named_run("other") == Path(".pai-runs/other")


@pytest.mark.process
def test_every_command_that_takes_a_run_takes_its_name() -> None:
    run = played(".pai-runs/hello-1")
    run.output("worker/0", b"hi\n")
    (run.task_folder("worker/0") / "variables.json").write_text("{}")
    commands = [["ps"], ["logs"], ["stop"], ["variables", "worker/0"]]
    for name, status in {"hello-1": 0, "latest": 0, ".pai-runs/hello-1": 0, "hullo-1": 2}.items():
        for ended in cli_each(*([command, name, *more] for command, *more in commands)):
            assert ended.returncode == status, ended
            assert ("did you mean hello-1?" in ended.stderr) == bool(status), ended
