"""``pai-runtime cp`` copies files of tasks: all or nothing, and over nothing, whatever the task says."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_plugin_kit import conformance
from pai_runs.copying import MOST_ENTRIES, copy_files
from pai_runtime.runs.errors import CannotCopy
from pai_runtime.runs.task_files import TaskFile
from pai_task.folder import MOST_LEVELS
from tests.played_run import PlayedRun
from tests.support import cli

test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance("runs"))

MOST = 1000


def file(*path: str, data: bytes = b"data", size: int | None = None, executable: bool = False) -> TaskFile:
    pieces = iter([data])
    return TaskFile(
        path, "file", len(data) if size is None else size, executable, lambda _most: next(pieces, b"")
    )


def folder(*path: str) -> TaskFile:
    return TaskFile(path, "folder")


def other(*path: str) -> TaskFile:
    return TaskFile(path, "other")


def left(place: Path) -> list[str]:
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


def test_a_directory_is_copied_with_all_that_is_a_file_or_directory(tmp_path: Path) -> None:
    files = [folder(), file("a", executable=True), folder("empty"), file("deep", "er", "b"), other("link")]
    copied = copy_files(iter(files), tmp_path / "copy", MOST)
    assert left(tmp_path) == ["copy", "copy/a", "copy/deep", "copy/deep/er", "copy/deep/er/b", "copy/empty"]
    assert (copied.size, copied.left_out) == (8, ["link"])
    assert [(tmp_path / "copy" / name).stat().st_mode & 0o100 for name in ("a", "deep/er/b")] == [0o100, 0]


def _without_end() -> Iterator[TaskFile]:
    yield folder()
    for number in range(MOST_ENTRIES + 2):
        yield other(str(number))


ATTACKS = {
    "nothing": [],
    "link": [other()],
    "parent": [folder(), file("..", "a")],
    "parent below": [folder(), file("a", "..", "..", "b")],
    "parent itself": [folder(), folder("..")],
    "itself": [folder(), file(".")],
    "absolute": [folder(), file("", "etc", "passwd")],
    "with a slash": [folder(), file("a/../../b")],
    "with NUL": [folder(), file("a\0b")],
    "once more the root": [folder(), folder()],
    "below a file": [folder(), file("a"), file("a", "b")],
    "twice": [folder(), file("a"), file("a")],
    "too deep": [folder(), folder(*["a"] * (MOST_LEVELS + 1))],
    "too long a name": [folder(), file("a" * 5000)],
    "two files": [file(), file()],
    "a file and a directory": [file(), folder("a")],
    "too large": [file(size=MOST + 1)],
    "too large in all": [folder(), *(file(str(number), data=b"x" * 300) for number in range(4))],
    "shorter than it says": [file(size=10)],
    "longer than asked for": [file(data=b"x" * 20, size=10)],
}


@pytest.mark.parametrize("files", ATTACKS.values(), ids=ATTACKS)
def test_what_no_task_may_say_copies_nothing_at_all(tmp_path: Path, files: list[TaskFile]) -> None:
    (tmp_path / "inner").mkdir()
    with pytest.raises(CannotCopy):
        copy_files(iter(files), tmp_path / "inner" / "copy", MOST)
    assert left(tmp_path) == ["inner"]


def test_files_without_end_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pai_runs.copying.MOST_ENTRIES", 10)
    with pytest.raises(CannotCopy, match="10 files"):
        copy_files(_without_end(), tmp_path / "copy", MOST)


def test_nothing_is_overwritten_unless_that_is_asked_for_and_a_directory_never(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "folder", "link"):
        with pytest.raises(CannotCopy, match="exists"):
            copy_files(iter([file()]), tmp_path / name, MOST)
    for name in ("folder", "link"):
        with pytest.raises(CannotCopy, match="exists"):
            copy_files(iter([file()]), tmp_path / name, MOST, replace=True)
    assert (tmp_path / "file").read_text() == "mine"
    copy_files(iter([file()]), tmp_path / "file", MOST, replace=True)
    assert (tmp_path / "file").read_text() == "data"
    assert left(tmp_path) == ["file", "folder", "link"]


def test_a_file_that_comes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    def late(_most: int) -> bytes:
        (tmp_path / "copy").write_text("mine")
        return b"data"

    with pytest.raises(CannotCopy):
        copy_files(iter([TaskFile((), "file", 4, read=late)]), tmp_path / "copy", MOST)
    assert (tmp_path / "copy").read_text() == "mine"
    assert left(tmp_path) == ["copy"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has ended, with files in the working directory of its task."""
    folder = tmp_path / "run"
    folder.mkdir()
    PlayedRun(folder, worker=1).end("succeeded")
    work = folder / "worker/0/work"
    (work / "model/deep").mkdir(parents=True)
    (work / "model/weights").write_bytes(bytes(range(128)) * 2)
    (work / "model/link").symlink_to("/etc/passwd")
    (work / "out").symlink_to("/etc")
    os.mkfifo(work / "model/fifo")
    return folder


@pytest.mark.process
def test_files_of_a_local_task_are_copied_by_its_name_and_the_name_of_its_role(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = cli("cp", run, "worker/0:model", ".")
    assert ended.returncode == 0, ended.stderr
    assert left(tmp_path / "model") == ["deep", "weights"]
    assert "model/fifo" not in left(tmp_path)
    assert "fifo, link" in ended.stderr
    assert cli("cp", run, "worker:model/weights", "w").returncode == 0
    assert (tmp_path / "w").read_bytes() == bytes(range(128)) * 2
    assert cli("cp", run, "worker:model/weights", "w").returncode == 2
    assert cli("cp", run, "worker:model/weights", "w", "--force").returncode == 0
    assert cli("cp", run, "worker:model/weights", "-").stdout.startswith("\0\1\2")


@pytest.mark.process
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("worker/0:missing", "new"),
        ("worker/0:../exit.yaml", "new"),
        ("worker/0:/etc/passwd", "new"),
        ("worker/0:out", "new"),
        ("worker/0:out/passwd", "new"),
        ("worker/0:model/fifo", "new"),
        ("worker/0:.", "."),
        ("worker/0:model/weights", "no/such/folder"),
        ("worker/0:model", "-"),
        ("worker/1:model", "new"),
        ("worker/0", "new"),
    ],
)
def test_what_is_no_file_of_the_task_is_not_copied(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = left(tmp_path)
    ended = cli("cp", run, source, target)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("pai-runtime: ")
    assert left(tmp_path) == before


@pytest.mark.process
def test_nothing_larger_than_the_limit_is_copied(run: Path, tmp_path: Path) -> None:
    ended = cli("cp", run, "worker:model", tmp_path / "copy", "--limit", "255")
    assert ended.returncode == 2
    assert "--limit" in ended.stderr
    assert not (tmp_path / "copy").exists()
