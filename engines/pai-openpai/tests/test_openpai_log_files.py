"""A log is read once and in order, however it is rotated; what was rotated away unread is said to be lost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_openpai.client.log_files import GrowingFile, LogFiles, Part

ROTATED_AT = 400
MOST_A_TIME = 150


class Node(LogFiles):
    """The files of a log on a node, as the runtime rotates them and nginx serves them."""

    def __init__(self) -> None:
        self.files = {"all": b""}
        self.rotations = 0
        self.count = 0

    def write(self, lines: int) -> None:
        for _ in range(lines):
            self.files["all"] += b"%04d\n" % self.count
            self.count += 1
            if len(self.files["all"]) >= ROTATED_AT:
                self.files = {"all": b"", "all.1": self.files["all"]}
                self.rotations += 1

    def part(self, name: str, first: int, most: int = MOST_A_TIME) -> Part | None:
        data = self.files.get(name)
        if data is None:
            return None
        found = data[first : first + min(most, MOST_A_TIME)]
        return Part(found, len(data), self._tag(name) if found or not data else "")

    def tag(self, name: str, *, is_new: bool = False) -> str:
        del is_new
        return self._tag(name) if name in self.files else ""

    def _tag(self, name: str) -> str:
        return f"{self.rotations - (name == 'all.1')}-{len(self.files[name])}"


def read_between(written: list[int]) -> tuple[Node, GrowingFile, list[int]]:
    """What is read of a log by a look after each time that so many lines were written, and by some more."""
    node = Node()
    log, data = GrowingFile(node, "all"), b""
    for lines in written:
        node.write(lines)
        data += log.read()
    while piece := log.read():
        data += piece
    return node, log, [int(line) for line in data.split()]


@given(st.lists(st.integers(0, MOST_A_TIME // 5), max_size=60))
def test_all_of_a_log_is_read_over_its_rotations(written: list[int]) -> None:
    node, log, found = read_between(written)
    assert (found, log.is_lost) == (list(range(node.count)), False)


@given(st.lists(st.integers(0, 75), max_size=60))
def test_of_a_log_that_grows_faster_than_it_is_read_the_loss_is_known(written: list[int]) -> None:
    node, log, found = read_between(written)  # less than a file between two looks, and more than is read
    assert found == sorted(set(found))
    assert (found or [-1])[-1] == node.count - 1
    assert log.is_lost or found == list(range(node.count))


class Restless(Node):
    """A node that gives a file another tag with each answer."""

    def _tag(self, name: str) -> str:
        self.rotations += 1
        return f"{name}-{self.rotations}"


def test_a_file_that_is_another_with_each_answer_is_an_error() -> None:
    node = Restless()
    node.files["all.1"] = b"old\n"
    with pytest.raises(OSError, match="rotated"):
        GrowingFile(node, "all").read()


def test_rotations_during_a_long_sleep_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    log = GrowingFile(node, "all")
    node.write(10)
    assert log.read().count(b"\n") == 10
    node.write(80)  # as large as it was, or larger
    moment = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: moment + 3600)
    data = b""
    while piece := log.read():
        data += piece
    assert [int(line) for line in data.split()] == list(range(10, 90))
