"""The questions to the watch, where who asks or who answers misbehaves."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pai_hang import asking

LONG = "x" * (4 << 20)
"""More than a socket takes that nobody reads."""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PAI_MASK", str(tmp_path / "mask"))
    monkeypatch.setattr(asking, "_has_ancestor", lambda _: True)
    monkeypatch.setattr(asking, "_TAKES", 0.1)
    monkeypatch.chdir(tmp_path)  # where the path of the socket is short
    return "stacks"


def test_neither_who_never_reads_nor_an_answer_that_fails_ends_the_answers(address: str) -> None:
    answers: Iterator[str] = iter([LONG, "told"])

    def answer() -> str:
        if len(asked) == 1:
            asked.append("fails")
            raise ValueError
        asked.append("answered")
        return next(answers)

    asked: list[str] = []
    asking.answer_each(answer)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(address)
        assert asking.ask(os.getpid()) == "told"
    assert asked == ["answered", "fails", "answered"]


@pytest.mark.parametrize("sent", [LONG, ""], ids=["too much", "nothing"])
def test_an_answer_that_is_too_long_or_never_ends_is_none(
    sent: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_MOST_BYTES", 1000)
    monkeypatch.setattr(asking, "_ANSWERS_WITHIN", 60.0 if sent else 0.1)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        with socket.socket(socket.AF_UNIX) as asks:
            asks.connect(address)
            answers, _ = listening.accept()
            with answers:
                answers.send(sent[:5000].encode())
                assert asking._read(asks) == ""
