"""What a page says of a text that is being written."""

from collections.abc import Sequence

from markupsafe import Markup

from pai_document.printable import printable
from pai_document.problems import MOST_SHOWN, Problem, errors
from pai_marketplace.checking import FILE
from pai_marketplace.pages.highlighting import yaml_lines
from pai_task.record import record


@record(frozen=True)
class Shown:
    """A problem as a page shows it: at a line of the text, or in another `file`."""

    severity: str
    line: int
    file: str
    text: str


class Checked:
    """The problems of a text, with its lines if there are any."""

    def __init__(self, text: str, problems: Sequence[Problem]) -> None:
        self.errors = len(errors(problems))
        self.more = max(0, len(problems) - MOST_SHOWN)
        self.problems = [_shown(each) for each in problems[:MOST_SHOWN]]
        self.lines: Sequence[Markup] = yaml_lines(text) if problems else ()
        self.at: dict[int, list[Shown]] = {}
        for each in self.problems:
            self.at.setdefault(each.line, []).append(each)


def _shown(problem: Problem) -> Shown:
    at = problem.position
    text = printable(problem.text)
    if at is None or at.file == FILE:
        return Shown(problem.severity, at.line if at else 0, "", text)
    return Shown(problem.severity, 0, printable(str(at)), text)
