"""What both of the user's streams share: a line stays a line, in the order in which lines ended."""

import math
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pai_task.console import LONGEST_LINE
from pai_task.masking import Masker, Masks
from pai_task.supervisor import user_log
from pai_task.supervisor.user_log import LinesInTurn, UserLog
from tests.task_harness import TaskRun, make_fifo, plan, run_task, shell

OUT, ERR = 0, 1
Write = tuple[int, bytes]


class Target:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def end(self) -> None:
        pass


class Streams:
    """Both streams of a command; lines wait for their ends for `wait` seconds."""

    def __init__(self, secrets: Sequence[str] = (), wait: float = math.inf) -> None:
        self.all, masks = Target(), Masks(secrets)
        together = LinesInTurn(self.all)
        self.files, self.consoles = (Target(), Target()), (Target(), Target())
        self._wait = wait
        self._logs = [
            UserLog(Masker(masks), *targets, together)  # type: ignore[arg-type]
            for targets in zip(self.files, self.consoles, strict=True)
        ]

    def write(self, *writes: Write) -> bytes:
        """What both have by then."""
        with patch.object(user_log, "_LONGEST_WAIT", self._wait):
            for number, data in writes:
                self._logs[number].feed(data)
        return self.all.data

    def idle(self, number: int) -> bool:
        with patch.object(user_log, "_LONGEST_WAIT", self._wait):
            return self._logs[number].idle()

    def end(self) -> bytes:
        for log in self._logs:
            log.flush()
        return self.all.data


_SECRETS = st.lists(st.text("abx\n", min_size=4, max_size=8), max_size=3)
_WRITES = st.lists(st.tuples(st.sampled_from((OUT, ERR)), st.text("abx\n\r", max_size=9).map(str.encode)))


def _in_order_of_their_ends(secrets: Sequence[str], writes: Sequence[Write]) -> bytes:
    """By definition: each stream masked as a whole, and its lines where they ended."""
    masked = []
    for number in (OUT, ERR):
        masker = Masker(Masks(secrets))
        data = masker.feed(b"".join(data for each, data in writes if each == number)) + masker.flush()
        masked.append(data.split(b"\n"))
    lines = [masked[number].pop(0) + b"\n" for number, data in writes for _ in range(data.count(b"\n"))]
    left = [rest for (rest,) in masked if rest]
    return b"".join(lines) + b"\n".join(left)


@given(_SECRETS, _WRITES)
@example(["xaab"], [(OUT, b"epoch x\n"), (ERR, b"ImportError: no\n"), (OUT, b"b\n")])
@example(["a\nbxx"], [(OUT, b"a\n"), (ERR, b"a\n"), (OUT, b"x\n"), (ERR, b"x"), (OUT, b"b")])
def test_each_line_is_whole_and_where_it_ended_whatever_is_masked(
    secrets: list[str], writes: list[Write]
) -> None:
    streams = Streams(secrets)
    streams.write(*writes)
    assert streams.end() == _in_order_of_their_ends(secrets, writes)


@given(_SECRETS, _WRITES, st.lists(st.integers(1, 3), min_size=1))
def test_any_split_of_the_writes_gives_the_same(
    secrets: list[str], writes: list[Write], sizes: list[int]
) -> None:
    whole, split = Streams(secrets), Streams(secrets)
    whole.write(*writes)
    for number, data in writes:
        size = sizes[len(data) % len(sizes)]
        split.write(*((number, data[start : start + size]) for start in range(0, len(data), size)))
    assert split.end() == whole.end()


@given(_WRITES, st.sampled_from([0.0, math.inf]), st.data())
def test_a_file_has_its_stream_byte_for_byte_and_no_line_begins_within_another(
    writes: list[Write], wait: float, data: st.DataObject
) -> None:
    """However long lines wait, and whenever nothing comes for a while."""
    writes = [(number, text.upper() if number == ERR else text) for number, text in writes]
    streams = Streams(wait=wait)
    for write in writes:
        streams.write(write)
        if data.draw(st.booleans()):
            streams.idle(data.draw(st.sampled_from((OUT, ERR))))
    lines = streams.end().replace(b"\r", b"").split(b"\n")
    assert not any(line.upper() != line != line.lower() for line in lines)
    for number, is_of_it in ((OUT, bytes.islower), (ERR, bytes.isupper)):
        text = b"".join(text for each, text in writes if each == number)
        assert streams.files[number].data == streams.consoles[number].data == text
        assert b"".join(line for line in lines if is_of_it(line)) == text.translate(None, b"\r\n")


def test_the_beginning_of_a_line_comes_out_when_it_has_waited_long_enough_and_its_rest_at_once() -> None:
    streams = Streams(wait=0)
    assert streams.write((OUT, b"\r 10%")) == b"\r 10%"
    assert streams.write((OUT, b"\r 20%")) == b"\r 10%\r 20%"
    assert streams.write((ERR, b"warning\n")) == b"\r 10%\r 20%\nwarning\n"
    assert streams.write((OUT, b"\r 30%")) == b"\r 10%\r 20%\nwarning\n\r 30%"


def test_it_is_asked_again_for_as_long_as_something_waits() -> None:
    streams = Streams()
    assert streams.write((OUT, b"name? ")) == b""
    assert streams.idle(OUT)
    streams.write((OUT, b"\n"))
    assert not streams.idle(OUT)


def test_what_waits_is_bounded() -> None:
    streams = Streams()
    for _ in range(100):
        streams.write((OUT, b"x" * 1000))
    assert len(streams.all.data) > 100_000 - LONGEST_LINE
    streams.write((ERR, b"a line\n"))
    assert streams.all.data.endswith(b"x\na line\n")


def test_lines_do_not_wait_without_a_bound_for_one_that_is_held_back() -> None:
    streams = Streams(["password"])
    assert streams.write((OUT, b"pass\n"), (ERR, b"waits\n")) == b""
    both = streams.write(*[(ERR, b"more\n")] * (LONGEST_LINE // 4))
    assert both.startswith(b"waits\nmore\n")
    assert streams.write((OUT, b"age\n"), (ERR, b"last\n")).endswith(b"more\npass\nage\nlast\n")


def test_where_nothing_is_masked_a_whole_line_does_not_wait() -> None:
    streams = Streams()
    assert streams.write((OUT, b"begin"), (ERR, b"one\n"), (OUT, b" end\n")) == b"one\nbegin end\n"


@pytest.mark.process
@pytest.mark.parametrize("secrets", [{}, {"key": "ssh-key-of-nobody"}])
def test_an_error_begins_its_line_though_the_output_before_it_is_not_finished(
    tmp_path: Path, secrets: dict[str, str]
) -> None:
    make_fifo(tmp_path, "seen")
    command = "printf 'loading s'; echo 'ImportError: no' >&2; cat seen; echo 'sh'; printf end"
    run = TaskRun(plan(tmp_path, command), secrets=secrets)
    assert run.process.stderr is not None
    assert b"ImportError: no\n" in iter(run.process.stderr.readline, b"")
    (tmp_path / "work" / "seen").write_text("")
    assert run.end() == 0
    assert run.log("user-all/current") in (
        b"ImportError: no\nloading ssh\nend",
        b"loading s\nImportError: no\nsh\nend",  # where the machine was busy for a second
    )
    assert run.stdout == run.stdout_log == b"loading ssh\nend"


@pytest.mark.process
def test_the_last_output_of_a_background_process_is_not_lost(tmp_path: Path) -> None:
    make_fifo(tmp_path, "go")
    make_fifo(tmp_path, "written")
    command = "(read line < go; printf late >&2; echo > written) & printf x"
    run = run_task(plan(tmp_path, command, [shell("taskExits", 0, "echo > go; read line < written")]))
    assert run.log("user-all/current") == b"x\nlate"
    assert run.stderr == run.log("user-stderr/current") == b"late"
