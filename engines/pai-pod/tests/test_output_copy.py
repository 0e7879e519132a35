"""The output of a task on a storage, as the sidecar of its pod copies it and others read it there."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pai_pod import output_copy
from pai_pod.directories import pod_directories
from pai_pod.kept_output import OUTPUT_VARIABLE, StoredAttempt, last_attempt, task_output_path
from pai_runtime.runs.log_follower import LogFollower
from pai_task.events import read_events
from pai_task.folder import Folder
from pai_task.plan import PEERS

PATH = task_output_path("demo", "uid", "worker", 1)
RECORD = 'exitCode: 3\noutcome: "failed"\n'
OWN = {"A": {"source": "platform", "value": "1"}}
SECRET = "sesame"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A pod volume with what a task has left."""
    made = tmp_path / "volume"
    logs, runtime = made / "logs/pod", made / "runtime.d"
    (logs / "user-all").mkdir(parents=True)
    runtime.mkdir()
    (logs / "user-all/current.1").write_text("first\n")
    (logs / "user-all/current").write_text("last\n")
    (logs / "init.log").write_text("init\n")
    (logs / "runtime.log").write_text("runtime\n")
    (runtime / "events.jsonl").write_text('{"time": 1, "event": "taskStarts"}\n')
    (runtime / "exit.yaml").write_text(RECORD)
    (runtime / "variables.json").write_text(json.dumps({**OWN, "B": {"source": PEERS, "value": "2"}}))
    return made


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    made = tmp_path / "storage"
    made.mkdir()
    return made


def _copy(volume: Path, storage: Path, **more: str) -> StoredAttempt:
    """What is on the storage when the sidecar has ended; of the last attempt."""
    environment = {"PAI_WORK_DIR": str(volume), "PAI_OUTPUT_DIR": str(storage), OUTPUT_VARIABLE: PATH, **more}
    copy = output_copy.output_copy(pod_directories(environment), environment)
    assert copy is not None
    copy.stop()
    copy.wait()
    return StoredAttempt(storage, f"{PATH}/{last_attempt(storage, PATH)}")


def _log(attempt: StoredAttempt, name: Any = "user") -> bytes:
    log = attempt.log(name)
    if log is None:
        return b""
    data = log.read(1000)
    log.close()
    return data


def test_logs_events_record_and_variables_of_an_attempt_are_on_the_storage(
    volume: Path, storage: Path
) -> None:
    attempt = _copy(volume, storage)
    assert _log(attempt) == b"first\nlast\n"
    assert _log(attempt, "runtime") == b"init\nruntime\n"
    assert attempt.record() == {"exitCode": 3, "outcome": "failed"}
    assert attempt.variables() == OWN
    with Folder.at(storage / PATH / "0") as folder:
        assert [event["event"] for event in read_events(folder)] == ["taskStarts"]


def test_without_the_variable_nothing_is_copied(volume: Path) -> None:
    assert output_copy.output_copy(pod_directories({"PAI_WORK_DIR": str(volume)}), {}) is None


@pytest.mark.parametrize(
    ("numbers", "attempt"),
    [(("", "", ""), 0), (("2", "", ""), 2), (("1", "2", "4"), 7), (("x", "1", "-1"), 1)],
)
def test_attempts_are_counted_as_on_the_cluster(
    volume: Path, storage: Path, numbers: tuple[str, str, str], attempt: int
) -> None:
    names = ("PAI_JOB_ATTEMPT", "PAI_TASK_ATTEMPT", "PAI_TASK_EVICTIONS")
    _copy(volume, storage, **dict(zip(names, numbers, strict=True)))
    assert [path.name for path in (storage / PATH).iterdir()] == [str(attempt)]


def test_a_sidecar_that_is_started_again_copies_nothing_twice(volume: Path, storage: Path) -> None:
    _copy(volume, storage)
    assert _log(_copy(volume, storage)) == b"first\nlast\n"


def test_a_task_that_left_nothing_has_an_attempt_without_records(tmp_path: Path, storage: Path) -> None:
    (tmp_path / "empty").mkdir()
    attempt = _copy(tmp_path / "empty", storage)
    assert (_log(attempt), attempt.record(), attempt.variables()) == (b"", {}, {})


@pytest.mark.parametrize(
    "name",
    [
        "logs/pod/user-all/current",
        "runtime.d/exit.yaml",
        "runtime.d/variables.json",
        "runtime.d/events.jsonl",
    ],
)
@pytest.mark.parametrize("is_folder", [False, True])
def test_no_link_of_the_task_leads_to_something_that_is_copied(
    tmp_path: Path,
    volume: Path,
    storage: Path,
    name: str,
    is_folder: bool,  # noqa: FBT001 - a column of the table
) -> None:
    outside, path = tmp_path / "outside", volume / name
    outside.mkdir()
    (outside / path.name).write_text(json.dumps({"A": {"source": SECRET}, "time": 1, "event": SECRET}))
    if is_folder:
        path.parent.rename(tmp_path / "aside")
        path.parent.symlink_to(outside)
    else:
        path.unlink()
        path.symlink_to(outside / path.name)
    _copy(volume, storage)
    assert all(SECRET not in file.read_text() for file in storage.rglob("*") if file.is_file())


def _link(storage: Path, outside: Path) -> None:
    (storage / "demo").symlink_to(outside)


def _link_of_attempt(storage: Path, outside: Path) -> None:
    (storage / PATH).mkdir(parents=True)
    (storage / PATH / "0").symlink_to(outside)


def _file(storage: Path, _outside: Path) -> None:
    (storage / "demo").write_text("")


def _nothing(storage: Path, _outside: Path) -> None:
    storage.rmdir()


@pytest.mark.parametrize("make", [_link, _link_of_attempt, _file, _nothing])
def test_a_storage_that_is_not_as_expected_is_said_once_and_nothing_outside_is_written(
    tmp_path: Path,
    volume: Path,
    storage: Path,
    capfd: pytest.CaptureFixture[str],
    make: Callable[[Path, Path], None],
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    make(storage, outside)
    _copy(volume, storage)
    assert capfd.readouterr().err.count("\n") == 1
    assert [path.name for path in outside.iterdir()] == ["mine"]


def test_a_storage_that_hangs_does_not_hold_up_the_end(
    volume: Path, storage: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = threading.Event()
    open_folder = Folder.folder

    def hang(folder: Folder, name: str, *, make: bool = False) -> Folder:
        if make:
            answers.wait()
        return open_folder(folder, name, make=make)

    monkeypatch.setattr(Folder, "folder", hang)
    monkeypatch.setattr(output_copy, "TO_THE_END", 0.01)
    _copy(volume, storage)
    assert str(storage) in capfd.readouterr().err
    answers.set()


def test_a_task_that_writes_for_ever_does_not_hold_up_the_end(
    volume: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_copy, "TO_THE_END", 0.05)
    monkeypatch.setattr(LogFollower, "read", lambda *_: b"more\n")
    environment = {"PAI_WORK_DIR": str(volume), "PAI_OUTPUT_DIR": str(storage), OUTPUT_VARIABLE: PATH}
    copy = output_copy.output_copy(pod_directories(environment), environment)
    assert copy is not None
    copy.stop()
    copy._thread.join()


@pytest.mark.parametrize("name", ["user.log", "exit.yaml", "variables.json"])
def test_no_link_on_the_storage_is_followed_by_those_who_read_it(
    tmp_path: Path, volume: Path, storage: Path, name: str
) -> None:
    attempt = _copy(volume, storage)
    (storage / PATH / "0" / name).rename(tmp_path / "outside")
    (storage / PATH / "0" / name).symlink_to(tmp_path / "outside")
    if name == "user.log":
        with pytest.raises(OSError, match=name):
            _log(attempt)
    else:
        assert not (attempt.record() if name == "exit.yaml" else attempt.variables())


@pytest.mark.parametrize("name", ["variables.json", "exit.yaml"])
@pytest.mark.parametrize("content", [b"", b"[]", b"[" * 5000, b"\xff", b"x" * (1 << 21)])
def test_what_others_have_written_there_is_read_as_nothing(
    volume: Path, storage: Path, name: str, content: bytes
) -> None:
    attempt = _copy(volume, storage)
    (storage / PATH / "0" / name).write_bytes(content)
    assert (attempt.variables() if name == "variables.json" else attempt.record()) == {}
