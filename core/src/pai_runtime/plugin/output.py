"""Output of a plugin's command."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol
else:
    Protocol = object


class Output(Protocol):
    """The output of a plugin's command. Control characters in untrusted text are escaped."""

    @property
    def columns(self) -> int | None:
        """How wide the terminal is that shows the output; None if none does."""

    def write_lines(self, lines: Iterable[str]) -> None:
        """Print each line to standard output, with control characters escaped."""

    def write_json(self, document: Any) -> None:
        """Print a document to standard output."""

    def report(self, *lines: str) -> None:
        """Messages on standard error; each names what it is about."""

    def log_line(self, line: bytes, columns: int) -> str:
        """The beginning of a line of a log as a terminal would show it, without escape sequences."""
