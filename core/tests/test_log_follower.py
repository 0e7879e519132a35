"""A log is read while it is written: nothing is lost and nothing comes twice, whatever becomes of it."""

import os
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_runtime.runs.log_follower import LogFollower
from pai_task.folder import Folder
from pai_task.launch import Rotation
from pai_task.log_file import LogFile, TimedLogFile


def all_of(follower: LogFollower, most: int = 1000) -> bytes:
    return b"".join(iter(lambda: follower.read(most), b""))


@given(
    pieces=st.lists(st.one_of(st.none(), st.binary(min_size=1, max_size=8))),
    size=st.integers(8, 20),
    count=st.integers(2, 4),
    most=st.integers(1, 30),
)
def test_every_byte_comes_once_and_in_order_however_it_was_written_rotated_and_read(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes | None], size: int, count: int, most: int
) -> None:
    """A piece that is None is a time at which somebody reads."""
    path = tmp_path_factory.mktemp("log") / "current"
    log, follower = (
        LogFile(Folder.at(path.parent), path.name, Rotation(size, count)),
        LogFollower(path.parent, path.name),
    )
    written = read = b""
    for piece in pieces:
        # As long as no more is written between two looks than is kept of the log.
        if piece is None or len(written) + len(piece) - len(read) > size:
            read += all_of(follower, most)
        if piece is not None:
            log.write(piece)
            written += piece
    assert read + all_of(follower, most) == written
    follower.close()


def test_nothing_is_lost_to_rotations_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "current"
    expected = b"".join(b"line %d\n" % number for number in range(2000))

    def write() -> None:
        log = LogFile(Folder.at(path.parent), path.name, Rotation(1000, 30))
        for line in expected.splitlines(keepends=True):
            log.write(line)

    writer = Thread(target=write)
    follower = LogFollower(path.parent, path.name)
    read = b""
    writer.start()
    while writer.is_alive():
        read += follower.read(1000)
    assert read + all_of(follower) == expected


def test_what_is_written_while_a_hole_is_looked_for_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "current"
    log.write_bytes(b"first\n")
    follower = LogFollower(tmp_path, "current")
    assert follower.read(100) == b"first\n"
    seek = os.lseek

    def look(fd: int, offset: int, whence: int) -> int:
        try:
            return seek(fd, offset, whence)
        finally:
            if whence == os.SEEK_DATA and log.stat().st_size == len(b"first\n"):
                log.write_bytes(b"first\nsecond\n")

    monkeypatch.setattr(os, "lseek", look)
    assert all_of(follower) == b"second\n"


def test_no_more_is_read_at_a_time_than_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(b"abcdef")
    (tmp_path / "log").write_bytes(b"ghi")
    follower = LogFollower(tmp_path, "log")
    assert [follower.read(4) for _ in range(4)] == [b"abcd", b"efgh", b"i", b""]


def test_it_waits_for_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path, "logs/current")
    assert follower.read(10) == b""
    LogFile(Folder.at(tmp_path), "logs/current", Rotation()).write(b"here")
    assert follower.read(10) == b"here"


def test_what_was_written_before_the_file_was_renamed_is_read_from_the_renamed_one(tmp_path: Path) -> None:
    path = tmp_path / "current"
    log, follower = (
        LogFile(Folder.at(path.parent), path.name, Rotation(4, 3)),
        LogFollower(path.parent, path.name),
    )
    log.write(b"ab")
    assert follower.read(10) == b"ab"
    log.write(b"cdefghijkl")
    assert follower.read(100) == b"cdefghijkl"


def test_a_file_that_was_rotated_away_is_read_to_its_end_if_it_was_begun(tmp_path: Path) -> None:
    path = tmp_path / "current"
    log, follower = (
        LogFile(Folder.at(path.parent), path.name, Rotation(4, 2)),
        LogFollower(path.parent, path.name),
    )
    log.write(b"ab")
    assert follower.read(10) == b"ab"
    log.write(b"cdefghijkl")
    assert not any(file.read_bytes() == b"abcd" for file in tmp_path.iterdir())
    assert follower.read(100) == b"cdefghijkl"


def test_where_more_was_rotated_away_than_is_kept_it_goes_on_with_the_oldest_that_is_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "current"
    log, follower = (
        LogFile(Folder.at(path.parent), path.name, Rotation(4, 2)),
        LogFollower(path.parent, path.name),
    )
    log.write(b"ab")
    assert follower.read(10) == b"ab"
    log.write(b"cd" + b"....." + b"...efghij")
    assert all_of(follower) == b"cdefghij"


@pytest.mark.parametrize("before", [b"ab", b"abcdef"], ids=["one file", "after a rotation"])
def test_a_log_that_was_removed_begins_anew_and_what_was_read_does_not_come_again(
    tmp_path: Path, before: bytes
) -> None:
    path = tmp_path / "current"
    log, follower = (
        LogFile(Folder.at(path.parent), path.name, Rotation(4, 2)),
        LogFollower(path.parent, path.name),
    )
    log.write(before)
    assert all_of(follower) == before
    path.unlink()
    assert all_of(follower) == b""
    log.write(b"new")
    assert all_of(follower) == b"new"


def test_a_log_that_was_made_empty_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "current"
    log, follower = (
        LogFile(Folder.at(path.parent), path.name, Rotation()),
        LogFollower(path.parent, path.name),
    )
    log.write(b"a long line")
    assert all_of(follower) == b"a long line"
    path.write_bytes(b"")
    assert all_of(follower) == b""
    log.write(b"short")
    assert all_of(follower) == b"short"


def test_the_log_of_the_next_attempt_of_a_task_follows_that_of_the_last(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    follower = LogFollower(tmp_path, "logs/current")
    log = LogFile(Folder.at(tmp_path), "logs/current", Rotation(4, 2))
    log.write(b"abcdef")
    assert all_of(follower) == b"abcdef"
    log.write(b"gh")
    logs.rename(tmp_path / "attempt")
    LogFile(Folder.at(tmp_path), "logs/current", Rotation(4, 2)).write(b"second")
    assert all_of(follower) == b"ghsecond"


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        LogFollower(tmp_path, "current").read(10)


@given(
    pieces=st.lists(st.tuples(st.integers(1, 9), st.binary(min_size=1, max_size=8))),
    size=st.integers(16, 48),
    most=st.integers(1, 30),
    looks=st.lists(st.booleans()),
)
def test_every_byte_has_the_time_at_which_it_was_written_however_it_was_rotated_and_read(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[int, bytes]],
    size: int,
    most: int,
    looks: list[bool],
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = TimedLogFile(Folder.at(folder), "current", "times", Rotation(size, 40))
    follower = LogFollower(folder, "current", "times")
    now = 0.0
    expected: list[tuple[float, int]] = []
    read: list[tuple[float | None, int]] = []

    def look() -> None:
        while new := follower.read_timed(most):
            read.extend((moment, byte) for moment, data in new for byte in data)

    for number, (later, data) in enumerate(pieces):
        now += later
        with patch("time.time", return_value=now):
            log.write(data)
        expected += [(now, byte) for byte in data]
        if looks[number : number + 1] == [True]:
            look()
    look()
    assert read == expected
    follower.close()


def test_times_that_were_half_written_or_are_of_a_removed_log_are_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "times").write_bytes(bytes(16) + b"half")
    (tmp_path / "current").write_bytes(b"old")
    log = TimedLogFile(Folder.at(tmp_path), "current", "times", Rotation())
    with patch("time.time", return_value=5.0):
        log.write(b"new")
        assert LogFollower(tmp_path, "current", "times").read_timed(10) == [(0.0, b"old"), (5.0, b"new")]
        (tmp_path / "current").unlink()
        log.write(b"newer")
    assert LogFollower(tmp_path, "current", "times").read_timed(10) == [(5.0, b"newer")]


def test_what_is_written_within_a_moment_has_one_time_so_that_times_stay_small(tmp_path: Path) -> None:
    log = TimedLogFile(Folder.at(tmp_path), "current", "times", Rotation())
    for number in range(1000):
        with patch("time.time", return_value=7 + number / 100_000):
            log.write(b"x")
    assert (tmp_path / "times").stat().st_size == 16
    assert LogFollower(tmp_path, "current", "times").read_timed(2000) == [(7.0, b"x" * 1000)]


def test_a_log_goes_on_without_times_where_they_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "times").mkdir()
    log = TimedLogFile(Folder.at(tmp_path), "current", "times", Rotation(4, 2))
    log.write(b"abcdef")
    assert LogFollower(tmp_path, "current", "times").read_timed(10) == [(None, b"abcd")]
