"""The view to which an engine reports a run."""

from typing import Protocol

from pai_runtime.runs.state import Run


class View(Protocol):
    """The receiver of a run's progress while it lasts; signal handlers may call `say`."""

    shows_output: bool
    """Whether it shows the tasks' output from their logs; the tasks then write it nowhere else."""

    def say(self, text: str) -> None:
        """Show a message of the runtime."""

    def show(self, run: Run) -> None:
        """Show the current state of the run; to be called at each change, and four times a second."""

    def end(self) -> None:
        """Show the final state of the run."""
