"""What authors of plugins have: helpers for their tests, and a new plugin that passes its own."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import InvalidInput
from pai_plugin_kit import JobRun, call, conformance, make_job, make_task, make_use
from pai_runtime.host.host import Host, Unavailable
from tests.plugin_factory import Site
from tests.support import PROGRAM, cli
from tests.typed_terminal import Terminal

CMD = "com.microsoft.pai.runtimeplugin.cmd"
ID = "org.example.greet"

RunJob = Callable[[Mapping[str, Any]], JobRun]


@pytest.fixture
def installed(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A folder for plugins that this process finds."""
    monkeypatch.syspath_prepend(str(site.folder))
    return site


def test_a_hook_gets_a_use_and_a_task_and_its_answer_is_returned() -> None:
    use = make_use("cmd", {"preCommands": ["true"]}, name="mine")
    assert (use.plugin, use.name, use.failure_policy) == (CMD, "mine", "fail")
    contribution = call("pai_prerequisite", use)
    assert [(step.event, step.script) for step in contribution.steps] == [("taskStarts", "true\n")]


def test_a_hook_gets_the_arguments_that_it_declares(installed: Site, tmp_path: Path) -> None:
    code = "@hookimpl\ndef pai_task_exits(record, task): (task.folder / 'x').write_text(record['exitCode'])"
    installed.add("org.kit.declares", code, hooks=["pai_task_exits"])
    use = make_use("org.kit.declares", {})
    call("pai_task_exits", use, make_task(tmp_path), record={"exitCode": "7"})
    assert (tmp_path / "x").read_text() == "7"


def test_what_a_hook_raises_passes(installed: Site) -> None:
    installed.add("org.kit.raises", "@hookimpl\ndef pai_prerequisite(): raise KeyError('mine')")
    with pytest.raises(KeyError, match="mine"):
        call("pai_prerequisite", make_use("org.kit.raises"))


def test_parameters_are_checked_by_the_manifest() -> None:
    with pytest.raises(InvalidInput) as caught:
        make_use("git", {"repository": "x"})
    assert {problem.code for problem in caught.value.problems} == {"missing-field", "unknown-field"}


def test_a_plugin_that_is_not_there_is_said_with_what_was_perhaps_meant() -> None:
    with pytest.raises(Unavailable) as caught:
        make_use("cmdd")
    assert caught.value.suggestion == CMD


@pytest.mark.process
def test_the_rules_for_plugins_are_one_test(installed: Site) -> None:
    conformance("cmd", "git")()
    installed.add("org.kit.wrong", "raise RuntimeError('boom')")
    with pytest.raises(AssertionError) as caught:
        conformance("cmd", "org.kit.wrong")()
    assert "RuntimeError: boom" in str(caught.value)
    assert "[import]" in str(caught.value)
    assert CMD not in str(caught.value)


@pytest.mark.process
def test_every_plugin_of_this_repository_keeps_the_rules() -> None:
    """Engines too, which have no other test of this kind."""
    conformance(*Host().installed)()


@pytest.mark.process
def test_a_job_runs_for_real(run_job: RunJob) -> None:
    use = {"plugin": "cmd", "preCommands": ["export WHOM=world", "echo prepared"]}
    run = run_job(make_job(use, commands=['echo "hello $WHOM"', "exit 3"], instances=2))
    assert run.status == 3
    task = run.task("worker/1")
    assert task.output == "hello world\n"
    assert "prepared" in task.runtime_log
    assert (task.exit_record["exitCode"], task.environment["WHOM"]) == (3, "world")


@pytest.mark.process
def test_a_job_that_cannot_run_says_why(run_job: RunJob) -> None:
    run = run_job(make_job({"plugin": "git", "repository": "x"}))
    assert run.status == 2
    with pytest.raises(AssertionError, match="unknown field"):
        run.task("worker/0")


# A new plugin

ALL_HOOKS = (
    *("pai_init", "pai_prerequisite", "pai_task_starts", "pai_analyze"),
    *("pai_task_succeeds", "pai_task_fails", "pai_task_exits"),
)


@pytest.mark.process
@pytest.mark.parametrize("hooks", [[], ["--hooks", *ALL_HOOKS]], ids=["one hook", "all hooks"])
def test_a_new_plugin_passes_its_own_tests_at_once(tmp_path: Path, hooks: list[str]) -> None:
    """Installed from the wheel that is built of it."""
    made = cli("plugins", "new", ID, "--license", "MIT", *hooks, cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    folder, site = tmp_path / "pai-greet", tmp_path / "site"
    assert "MIT License" in (folder / "LICENSE").read_text()
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    argv = [sys.executable, "-c", build, str(tmp_path)]
    wheel = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        archive.extractall(site)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


@pytest.mark.process
def test_the_code_of_a_new_plugin_is_formatted(tmp_path: Path) -> None:
    for name, hooks in (("one", []), ("all", ["--hooks", *ALL_HOOKS]), ("ends", ["--hooks", ALL_HOOKS[-1]])):
        cli("plugins", "new", ID, "--dir", tmp_path / name, *hooks)
    ruff = str(Path(sys.executable).with_name("ruff"))
    if not Path(ruff).exists():
        pytest.skip("this environment has no ruff")
    width = ["--isolated", "--line-length", "110", str(tmp_path)]
    for command in (["format", "--check"], ["check", "--select", "E,F,I,W"]):
        done = subprocess.run([ruff, *command, *width], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    "args", [["Greet"], ["org.Example.greet"], [ID, "--license", "<b>"], ["org.example.../greet"]]
)
def test_what_cannot_be_made_is_said(tmp_path: Path, args: list[str]) -> None:
    done = cli("plugins", "new", *args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.process
@pytest.mark.parametrize(("answer", "has_license"), [("MIT\n", True), ("\n", False), ("\x04", False)])
def test_the_licence_is_asked_for(tmp_path: Path, answer: str, *, has_license: bool) -> None:
    terminal = Terminal(PROGRAM, "plugins", "new", ID, "--dir", tmp_path / "new")
    terminal.wait_for("licence.*: ")
    terminal.type(answer)
    assert terminal.end() == 0
    assert (tmp_path / "new/LICENSE").exists() == has_license
    assert ('license = "MIT"' in (tmp_path / "new/pyproject.toml").read_text()) == has_license


@pytest.mark.process
def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "pai-greet").mkdir()
    done = cli("plugins", "new", ID, cwd=tmp_path)
    assert (done.returncode, list((tmp_path / "pai-greet").iterdir())) == (2, [])
    assert "--dir" in done.stderr
