"""Whom an engine shows a run to."""

from typing import Protocol

from pai_runtime.runs.state import Run


class View(Protocol):
    """Whom an engine tells of a run while it lasts. `say` may be called by the handler of a signal too."""

    shows_output: bool
    """Whether it shows the output of the tasks, out of their logs: the tasks then write it nowhere else."""

    def say(self, text: str) -> None:
        """Show a message of the runtime's own."""

    def show(self, run: Run) -> None:
        """Show how the run is now; to be called at each change, and four times a second."""

    def end(self) -> None:
        """Show how it was at last."""
