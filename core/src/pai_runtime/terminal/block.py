"""Lines at the end of a terminal that are drawn anew in place."""

import os
import sys
from collections.abc import Sequence

from pai_runtime.task.console import Console


def can_redraw() -> bool:
    """Whether standard output is a terminal on which a block can be drawn."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Block:
    """A block of lines, above which all else scrolls.

    The cursor stands below the block. Whatever the terminal is told is told in one piece, without a state
    that would have to be restored: a program that is killed leaves an old block, and nothing worse.
    """

    def __init__(self, terminal: int = 1) -> None:
        self.lines: Sequence[str] = ()
        self._terminal = terminal
        self._console = Console(terminal, b"")

    def draw(self, above: Sequence[str], lines: Sequence[str]) -> None:
        """Print what is `above`, and the block, whose lines have to fit the terminal."""
        if not above and lines == self.lines:
            return
        to_begin = f"\x1b[{len(self.lines)}A\r\x1b[J" if self.lines else ""
        text = to_begin + "".join(f"{line}\n" for line in (*above, *lines))
        self.lines = lines
        self._console.write(text.encode("utf-8", "backslashreplace"))

    def leave(self) -> None:
        """What was drawn stays; another block begins below it."""
        self.lines = ()

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        try:
            columns, rows = os.get_terminal_size(self._terminal)
        except OSError:
            return 80, 24
        return columns or 80, rows or 24
