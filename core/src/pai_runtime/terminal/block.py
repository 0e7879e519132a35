"""A block of lines at the end of a terminal that is redrawn in place."""

import os
import sys
from collections.abc import Sequence

from pai_task.console import Console


def can_redraw() -> bool:
    """Return whether standard output is a terminal on which a block can be redrawn."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Block:
    """A block of lines at the end of the terminal, above which all other output scrolls.

    The cursor stands below the block. Whatever the terminal is told is told in one piece, without a state
    that would have to be restored: a program that is killed leaves an old block, and nothing worse.
    """

    def __init__(self, terminal: int = 1) -> None:
        self.lines: Sequence[str] = ()
        self._terminal = terminal
        self._console = Console(terminal, b"")

    def draw(self, above: Sequence[str], lines: Sequence[str]) -> None:
        """Print the lines `above`, then redraw the block; its lines have to fit the width of the terminal."""
        if not above and lines == self.lines:
            return
        to_begin = f"\x1b[{len(self.lines)}A\r\x1b[J" if self.lines else ""
        text = to_begin + "".join(f"{line}\n" for line in (*above, *lines))
        self.lines = lines
        self._console.write(text.encode("utf-8", "backslashreplace"))

    def leave(self) -> None:
        """Leave the drawn block in place; the next one starts below it."""
        self.lines = ()

    def size(self) -> tuple[int, int]:
        """Return the terminal's size as columns and rows; 80 and 24 if it is unknown."""
        try:
            columns, rows = os.get_terminal_size(self._terminal)
        except OSError:
            return 80, 24
        return columns or 80, rows or 24
