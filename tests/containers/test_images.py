"""One task in images of all kinds: what it says, leaves and ends with is the same in each."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.containers.pod import RUNTIME_DIR, Pod
from tests.task_harness import plan, shell
from tools.images import Conditions, faults, init

pytestmark = pytest.mark.process

_STEPS = [
    shell("taskStarts", 0, 'echo "starts: $GREETING"; export CARRIED=over'),
    shell("taskFails", 0, 'echo "fails: $PAI_TASK_EXIT_CODE"'),
    shell("taskExits", 1, "false"),
]
_COMMAND = 'echo "$GREETING $CARRIED"; echo err >&2; exit 3'
_SECRETS = {"who": "w0rld-s3cret"}

_RUNTIME_LOG = [
    "[INFO] Starting to exec precommands",
    "[INFO] output of 'a' (org.example.test) in taskStarts:",
    "starts: hello, ******",
    "[INFO] Precommands finished",
    "[INFO] USER COMMAND START",
    "[INFO] USER COMMAND END",
    "[INFO] output of 'a' (org.example.test) in taskFails:",
    "fails: 3",
    "[ERROR] taskExits of 'b' (org.example.test, pai-test 1.0, job.yaml:1:1) ended with exit code 1",
]

IMAGES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "busybox only": ("busybox", {}),
    "scratch with one static program": ("scratch", {}),
    "musl": ("musl", {}),
    "an older Debian": ("bullseye", {}),
    "read-only, of an ordinary user without capabilities": (
        "busybox",
        {"read_only": True, "user": 12345, "capabilities": ()},
    ),
    "scratch, read-only, of an ordinary user without capabilities": (
        "scratch",
        {"read_only": True, "user": 12345, "capabilities": (), "shm": None},
    ),
    "an older Debian, of an ordinary user": ("bullseye", {"user": 12345}),
}


_NO_SHELL = "[INFO] this image has no shell: commands run in /usr/local/pai/bundle/applets/bash"


def _marks(image: str) -> list[pytest.MarkDecorator]:
    if image == "bullseye":  # which is fetched from a mirror of Debian, once
        return [pytest.mark.needs("mmdebstrap"), pytest.mark.timeout(900)]
    return [pytest.mark.needs("musl-tools")] if image == "musl" else []


@pytest.mark.parametrize(
    "which", [pytest.param(name, id=name, marks=_marks(image)) for name, (image, _) in IMAGES.items()]
)
def test_a_task_is_the_same_in_every_image(pod: Pod, image: Callable[[str], Path], which: str) -> None:
    name, how = IMAGES[which]
    given = plan(RUNTIME_DIR, _COMMAND, _STEPS, environment={"GREETING": "hello, \0who\0"})
    pod.prepare(given, _SECRETS)
    ended = pod.run_task(image(name), **how)
    assert (ended.code, ended.stdout, ended.stderr) == (3, "hello, ****** over\n", "err\n")
    assert pod.runtime_log == ([_NO_SHELL] if name == "scratch" else []) + _RUNTIME_LOG
    assert (pod.record["originUserExitCode"], pod.record["callbackFailureCount"]) == (3, 1)
    assert pod.termination_message.startswith("[PAI_RUNTIME_ERROR_START]\nexitCode: 3\n")
    assert (pod.logs / "user-all/current").read_text() == "hello, ****** over\nerr\n"
    everything = [path for path in pod.volume.parent.rglob("*") if path.is_file()]
    assert not [path for path in everything if b"w0rld-s3cret" in path.read_bytes()]


@pytest.mark.parametrize(
    ("name", "user", "umask"), [("scratch", 12345, 0o77), ("busybox", 0, 0o27), ("empty", 12345, 0o27)]
)
def test_neither_the_umask_of_the_containers_nor_a_locale_that_is_missing_changes_it(
    tmp_path: Path, bundle: Path, image: Callable[[str], Path], name: str, user: int, umask: int
) -> None:
    """Three of the combinations that ``python -m tools.images`` tries."""
    conditions = Conditions(name, user, read_only=True, umask=umask, locale="not installed")
    prepared = init(tmp_path / "init", bundle, umask)
    assert list(faults(conditions, image(name), prepared, bundle, tmp_path / "pod")) == []


@pytest.mark.parametrize("name", ["busybox", "scratch"], ids=["a directory for it that is read-only", "none"])
def test_a_termination_log_that_cannot_be_written_is_said_and_fails_nothing(
    pod: Pod, image: Callable[[str], Path], name: str
) -> None:
    pod.prepare(plan(RUNTIME_DIR, "echo done"))
    ended = pod.run_task(image(name), read_only=True, user=12345, has_termination_log=False)
    assert (ended.code, ended.stdout) == (0, "done\n")
    assert any("/tmp/pai-termination-log" in line for line in pod.runtime_log)
    assert pod.record["exitCode"] == 0


def test_a_working_directory_that_nobody_can_write_is_that_of_the_command(
    pod: Pod, image: Callable[[str], Path]
) -> None:
    pod.prepare(plan(RUNTIME_DIR, 'pwd; echo "$PAI_WORK_DIR"', [shell("taskStarts", 0, "pwd")]))
    ended = pod.run_task(image("busybox"), read_only=True, user=12345, work="/etc")
    assert (ended.code, ended.stdout) == (0, "/etc\n/etc\n")
    assert "/etc" in pod.runtime_log


def test_a_plan_that_is_damaged_ends_with_a_message_where_people_look(
    pod: Pod, image: Callable[[str], Path]
) -> None:
    pod.prepare(plan(RUNTIME_DIR, "echo never"))
    (pod.runtime_dir / "plan.json").write_text('{"planVersion": 1}')
    ended = pod.run_task(image("scratch"), user=12345)
    assert (ended.code, ended.stdout) == (241, "")
    assert "cannot be run" in ended.stderr
    assert pod.record["message"] in ended.stderr
    assert pod.termination_message.startswith("[PAI_RUNTIME_ERROR_START]\nexitCode: 241\n")
