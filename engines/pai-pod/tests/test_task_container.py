"""The first process of a task container, as an ordinary process: what it takes over, and what it leaves."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_pod.handover import NAME, Handover, hand_over
from pai_pod.launcher_environment import turned
from pai_task.bundle import OWN_VARIABLES
from pai_task.exit_codes import RUNTIME_ERROR, UNEXPLAINED
from pai_task.folder import Folder
from pai_task.interpreter import search_path
from pai_task.plan import Plan
from tests.task_harness import plan, shell

pytestmark = pytest.mark.process

# The platform's termination log is one for all of a machine, unlike in a container.
_START = """
import sys
sys.path[:] = {path}
from pai_pod import entry
entry.TERMINATION_LOG = {log!r}
{before}
sys.exit(entry.main())
"""


_TOLD_EARLY = """
import os, signal
def open_standard_streams(then=entry.open_standard_streams):
    os.kill(os.getpid(), signal.SIGTERM)
    then()
entry.open_standard_streams = open_standard_streams
"""
"""Has the signal come as soon as the process itself does anything."""


class _Pod:
    """The folders that a task container has, and what was left in them."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder, self.logs = tmp_path / "runtime.d", tmp_path / "logs" / "uid"
        self.work, self.termination_log = tmp_path / "app", tmp_path / "termination-log"
        for folder in (self.folder, self.logs, self.work):
            folder.mkdir(parents=True)

    def prepare(
        self, plan: Plan, secrets: Mapping[str, str] | None = None, *, has_tai64n_names: bool = False
    ) -> None:
        (self.folder / "plan.json").write_text(json.dumps(plan.to_json()))
        with Folder.at(self.folder) as folder:
            hand_over(folder, Handover(str(self.logs), secrets or {}, has_tai64n_names))

    def start(
        self, env: Mapping[str, str] | None = None, before: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run it with this environment, as the launcher does it; `before` is run first."""
        script = _START.format(path=search_path(), log=str(self.termination_log), before=before)
        given = {"PATH": os.environ["PATH"], "PAI_RUNTIME_DIR": str(self.folder), **(env or {})}
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", script],
            cwd=self.work,
            env={**{turned(name): value for name, value in given.items()}, **OWN_VARIABLES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = yaml.safe_load((self.folder / "exit.yaml").read_text())
        return record


@pytest.fixture
def pod(tmp_path: Path) -> _Pod:
    return _Pod(tmp_path)


def test_the_task_runs_in_the_working_directory_of_the_image_with_the_logs_of_the_platform(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder, "pwd; echo $PAI_WORK_DIR; exit 7"))
    ended = pod.start()
    assert (ended.returncode, ended.stdout) == (7, f"{pod.work}\n" * 2)
    assert (pod.logs / "user-all/current").read_text() == ended.stdout
    assert pod.record["exitCode"] == 7
    assert (pod.logs / "exit.yaml").read_text() == (pod.folder / "exit.yaml").read_text()
    assert (pod.folder / "exit.yaml").read_text() in pod.termination_log.read_text()
    assert (pod.logs / "runtime.log").exists()
    assert not (pod.folder / "logs").exists()


@pytest.mark.parametrize("asked", [False, True])
def test_earlier_files_of_logs_have_the_names_that_the_platform_looks_for(pod: _Pod, *, asked: bool) -> None:
    pod.prepare(plan(pod.folder), has_tai64n_names=asked)
    started = pod.start(
        before="entry.supervise = lambda folder, options: print(options.rotation.tai64n) or 0"
    )
    assert started.stdout == f"{asked}\n"


def test_where_the_platform_lists_exit_codes_its_record_keeps_the_commands_own(pod: _Pod) -> None:
    pod.prepare(replace(plan(pod.folder, "exit 250"), listed_codes=(226, 250, 255)))
    assert (pod.start().returncode, pod.start().returncode) == (UNEXPLAINED, UNEXPLAINED)
    assert (pod.record["exitCode"], pod.record["originUserExitCode"]) == (UNEXPLAINED, 250)


def test_the_environment_is_what_the_image_means_it_to_be(pod: _Pod) -> None:
    image = {
        "LD_LIBRARY_PATH": "/nowhere",
        "LC_ALL": "POSIX",
        "LANG": "xx",
        "GCONV_PATH": "/nowhere",
        "OPENSSL_CONF": "/nowhere",
        "PYTHONPATH": "/nowhere",
        "PAI_IMAGE_OF_MY_OWN": "kept",
        "LINES_\n": "two\nlines",
        "FC_POD_UID": "uid",
    }
    pod.prepare(plan(pod.folder, "exec env -0"))
    ended = pod.start(image)
    found = dict(line.split("=", 1) for line in ended.stdout.split("\0") if line)
    own = {
        "PATH",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
        "PAI_RUNTIME_DIR",
        "PAI_WORK_DIR",
        "PAI_MASK",
        "PYTHONUNBUFFERED",
    }
    assert {name: value for name, value in found.items() if name not in own} == image
    assert found["PWD"] == str(pod.work)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_everyone_can_read_the_logs_and_the_task_has_the_umask_of_the_image(pod: _Pod, mask: int) -> None:
    given = plan(pod.folder, "umask", [shell("taskStarts", 0, "umask"), shell("taskExits", 0, "umask")])
    pod.prepare(given)
    before = os.umask(mask)
    try:
        ended = pod.start()
    finally:
        os.umask(before)
    assert (ended.returncode, int(ended.stdout, 8)) == (0, mask)
    texts = [line.rpartition(" ")[2] for line in (pod.logs / "runtime.log").read_text().splitlines()]
    assert [int(text, 8) for text in texts if text.isdecimal()] == [mask, mask]
    for path in (pod.logs, *pod.logs.rglob("*")):
        wanted = 0o755 if path.is_dir() else 0o644
        assert path.stat().st_mode & wanted == wanted, path


def test_a_sidecar_with_a_user_of_its_own_can_read_the_log_and_the_variables(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder))
    assert pod.start().returncode == 0
    for file in (pod.logs / "runtime.log", pod.folder / "variables.json"):
        assert file.stat().st_mode & 0o444 == 0o444


def test_secrets_are_taken_over_and_hidden_and_gone_from_the_disk_before_any_step(pod: _Pod) -> None:
    given = plan(
        pod.folder,
        "echo $TOKEN; test ${#TOKEN} = 6",
        [shell("taskStarts", 0, f"! test -e {pod.folder / NAME}")],
        environment={"TOKEN": "\0token\0"},
    )
    pod.prepare(given, {"token": "s3cret"})
    ended = pod.start()
    assert ended.returncode == 0, ended.stderr
    assert "s3cret" not in ended.stdout
    everything = [path.read_bytes() for path in pod.folder.parent.rglob("*") if path.is_file()]
    assert not any(b"s3cret" in content for content in everything)


def test_a_signal_that_comes_before_the_supervisor_listens_is_not_lost(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder, "echo ran; sleep 1000", [shell("taskExits", 0, "echo over")]))
    ended = pod.start(before=_TOLD_EARLY)
    assert (ended.returncode, ended.stdout) == (143, "")
    assert pod.record["outcome"] == "cancelled"


def test_a_task_that_has_ended_keeps_its_result_and_is_not_run_twice(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder, "echo ran >> ran; exit 7"))
    first = pod.start()
    record = (pod.folder / "exit.yaml").read_text()
    pod.termination_log.unlink()
    for _ in range(2):
        again = pod.start()
        assert (first.returncode, again.returncode) == (7, 7)
        assert "already ended" in again.stderr
    assert (pod.work / "ran").read_text() == "ran\n"
    assert (pod.folder / "exit.yaml").read_text() == record
    assert record in pod.termination_log.read_text()


def test_a_task_that_was_killed_is_not_run_twice_either(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder, "echo ran >> ran; kill -KILL $PPID"))
    assert pod.start().returncode == -9
    assert pod.start().returncode == RUNTIME_ERROR
    assert (pod.work / "ran").read_text() == "ran\n"
    assert "left nothing for this container" in pod.record["message"]


def _without_plan(pod: _Pod) -> None:
    (pod.folder / "plan.json").unlink()


def _half_a_plan(pod: _Pod) -> None:
    text = (pod.folder / "plan.json").read_text()
    (pod.folder / "plan.json").write_text(text[: len(text) // 2])


def _another_plan(pod: _Pod) -> None:
    (pod.folder / "plan.json").write_text("[]")


def _missing_secret(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder, "echo \0token\0"))


def _half_a_handover(pod: _Pod) -> None:
    (pod.folder / NAME).write_text("{")


def _no_handover(pod: _Pod) -> None:
    (pod.folder / NAME).unlink()


def _handover_is_a_link(pod: _Pod) -> None:
    (pod.folder / NAME).unlink()
    (pod.folder / NAME).symlink_to("/etc/passwd")


def _record_is_nonsense(pod: _Pod) -> None:
    _no_handover(pod)
    (pod.folder / "exit.yaml").write_text("exitCode: 1000\n")


def _record_is_a_folder(pod: _Pod) -> None:
    _no_handover(pod)
    (pod.folder / "exit.yaml").mkdir()


def _init_has_not_run(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder, "true", [shell("init", 0, "true")]))


@pytest.mark.parametrize(
    "damage",
    [
        _without_plan,
        _half_a_plan,
        _another_plan,
        _missing_secret,
        _half_a_handover,
        _no_handover,
        _handover_is_a_link,
        _record_is_nonsense,
        _record_is_a_folder,
        _init_has_not_run,
    ],
)
def test_what_the_init_container_has_not_left_whole_ends_with_a_message_and_a_record(
    pod: _Pod, damage: Any
) -> None:
    pod.prepare(plan(pod.folder, "echo ran"))
    damage(pod)
    ended = pod.start()
    assert (ended.returncode, ended.stdout) == (RUNTIME_ERROR, "")
    assert "Traceback" not in ended.stderr
    assert pod.record["exitCode"] == RUNTIME_ERROR
    assert pod.record["message"] in ended.stderr
    assert pod.record["message"] in pod.termination_log.read_text()


def test_without_the_folder_of_the_task_there_is_a_message(pod: _Pod) -> None:
    ended = pod.start({"PAI_RUNTIME_DIR": "/nowhere"})
    assert (ended.returncode, "Traceback" in ended.stderr) == (RUNTIME_ERROR, False)
    assert "/nowhere" in ended.stderr


def test_without_a_null_device_there_is_a_message_and_a_record(pod: _Pod) -> None:
    pod.prepare(plan(pod.folder, "echo ran"))
    ended = pod.start(before="import os; os.devnull = '/nowhere/null'")
    assert (ended.returncode, ended.stdout, "Traceback" in ended.stderr) == (RUNTIME_ERROR, "", False)
    assert (pod.logs / "exit.yaml").read_text() in pod.termination_log.read_text()


def test_it_imports_nothing_beyond_what_a_task_needs() -> None:
    script = (
        f"import sys; sys.path[:] = {search_path()}; before = set(sys.modules); "
        "import pai_pod.entry; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name.partition(".")[0] for name in loaded if name.startswith("pai_")} == {"pai_pod", "pai_task"}
    assert not {"pathlib", "subprocess", "json", "typing", "re", "dataclasses", "logging"} & set(loaded)
