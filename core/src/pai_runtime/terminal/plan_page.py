"""The plans of a job as one page: what each task does in order, by whom, and what differs between roles."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pai_document.amounts import counted
from pai_document.printable import printable
from pai_runtime.job.model import PLUGIN_PREFIX
from pai_runtime.plan.show import ORDER, mount_source, steps_in_order
from pai_runtime.terminal.table import table
from pai_runtime.terminal.text import columns_of, shortened, some
from pai_task.placeholders import show
from pai_task.plan import PEERS, PLATFORM, Plan, Step, UseRecord
from pai_task.record import record
from pai_task.vocabulary import Phase

_Group = tuple[int, Plan]
"""A number of tasks that differ only in index and ports, and the plan of the first."""

_TITLES: Final = ("WHEN", "BY", "FROM", "TASKS", "DOES")
_MOMENTS: Final = tuple(
    moment for phase in ORDER for moment in ((phase, "service") if phase == "taskStarts" else (phase,))
)
_MOST_GROUPS: Final = 20
"""Maximum number of groups that are compared."""
_OF_ALL: Final = "all"
_SAYS_SOMETHING: Final = re.compile(r"\w")
_CELLS: Final = 5
"""Minimum share of a terminal's width, as a divisor, that no column but the last one exceeds."""
_LEAST: Final = 20
"""Minimum number of columns of a line of a script that are shown."""


@record(frozen=True)
class _Row:
    """What happens at a moment; `text` is all of what is done, of which the page shows the first line."""

    when: str
    by: str
    source: str
    text: str
    notes: tuple[str, ...] = ()

    def does(self, columns: int | None) -> str:
        """Return the first line that says something, and how many there are and what else there is to say.

        With `columns`, the line is cut to leave room for the rest.
        """
        lines = [line.strip() for line in show(self.text).strip().split("\n")]
        more = [f"{len(lines)} lines"] if len(lines) > 1 else []
        notes = ", ".join((*more, *self.notes))
        first = printable(next(filter(_SAYS_SOMETHING.search, lines), ""))
        after = f" ({notes})" if notes else ""
        if columns is not None:
            first = shortened(first, max(_LEAST, columns - len(after)))
        return first + after


def plan_page(groups: Sequence[_Group], file: str, width: int | None) -> Iterator[str]:
    """Yield the page for groups of tasks of one job; places in the job `file` are shown as lines."""
    shown = groups[:_MOST_GROUPS]
    labels = [_label(group, groups) for group in shown]
    named = [
        label + (f" ({alike} tasks)" if alike > 1 else "")
        for label, (alike, _) in zip(labels, shown, strict=True)
    ]
    yield f"job {groups[0][1].job}: {some(named)}"
    for label, (_, plan) in zip(labels, shown, strict=True):
        yield from (f"warning for {label}: {warning}" for warning in plan.warnings)
    yield ""
    merged = _merged([list(_rows(plan)) for _, plan in shown])
    cells: list[tuple[str, ...]] = [_TITLES[:-1]]
    for row, members in merged:
        tasks = _OF_ALL if len(members) == len(groups) else some([labels[member] for member in members])
        cells.append((row.when, row.by, _place(row.source, file), tasks))
    room = None
    if width is not None:
        cells = [tuple(shortened(printable(cell), width // _CELLS) for cell in row) for row in cells]
        room = width - sum(max(map(columns_of, column)) + len("  ") for column in zip(*cells, strict=True))
    does = [_TITLES[-1], *(row.does(room) for row, _ in merged)]
    yield from table([(*row, what) for row, what in zip(cells, does, strict=True)], width)
    if len(groups) > _MOST_GROUPS:
        yield f"{len(groups) - _MOST_GROUPS} more groups of tasks differ from these"


def _label(group: _Group, groups: Sequence[_Group]) -> str:
    """Return the name of a group of tasks: that of the role if it is all of it."""
    alike, plan = group
    if alike > 1 and sum(other.role == plan.role for _, other in groups) == 1:
        return plan.role
    last = f" to {plan.index + alike - 1}" if alike > 1 else ""
    return f"{plan.role}/{plan.index}{last}"


def _merged(lists: Sequence[Sequence[_Row]]) -> list[tuple[_Row, list[int]]]:
    """Merge rows so that those of each list stay in order; return each with the lists that it is in."""
    merged: list[tuple[_Row, list[int]]] = []
    for member, rows in enumerate(lists):
        after = 0
        for row in rows:
            same = next((at for at in range(after, len(merged)) if merged[at][0] == row), None)
            if same is None:
                after = _place_after(merged, after, row, rows)
                merged.insert(after, (row, [member]))
            else:
                merged[same][1].append(member)
                after = same
            after += 1
    return merged


def _place_after(
    merged: Sequence[tuple[_Row, list[int]]], after: int, row: _Row, rows: Sequence[_Row]
) -> int:
    """Return where to insert a row: past what is earlier, or at the same moment in other lists alone."""
    while (
        after < len(merged)
        and (other := merged[after][0]) not in rows
        and _MOMENTS.index(other.when) <= _MOMENTS.index(row.when)
    ):
        after += 1
    return after


def _rows(plan: Plan) -> Iterator[_Row]:
    by_source: dict[str, list[str]] = {}
    for variable in plan.environment:
        if variable.source not in (PLATFORM, PEERS):
            by_source.setdefault(variable.source, []).append(variable.name)
    for source, names in by_source.items():
        yield _Row("init", source, "", f"sets {some(names)}")
    for planned in plan.mounts:
        use, mount = plan.uses[planned.use], planned.mount
        yield _Row("init", _by(use), use.source, f"mounts {mount_source(mount)} at {mount.path}")
    for phase in ORDER:
        yield from _of_phase(plan, phase)


def _of_phase(plan: Plan, phase: Phase) -> Iterator[_Row]:
    if phase == "command":
        nounset = ("unset variables are errors",) if plan.command.nounset else ()
        yield _Row(phase, "the job", plan.command.source, plan.command.script, nounset)
    if phase == "analysis" and plan.exit_rules:
        names = some(list(dict.fromkeys(plan.uses[planned.use].name for planned in plan.exit_rules)))
        yield _Row(phase, names, "", counted(len(plan.exit_rules), "exit rule", "exit rules"))
    for step in steps_in_order(plan, phase):
        yield _of_step(plan.uses[step.use], step)
    if phase == "taskStarts":
        for planned in plan.services:
            use, service = plan.uses[planned.use], planned.service
            waits = ("the command waits for it",) if service.required else ()
            yield _Row("service", _by(use), use.source, service.script, waits)


def _of_step(use: UseRecord, step: Step) -> _Row:
    notes = ("failures are ignored",) if step.failure_policy == "ignore" else ()
    text = step.script if step.script is not None else f"Python: {step.hook}"
    return _Row(step.phase, _by(use), use.source, text, notes)


def _by(use: UseRecord) -> str:
    plugin = use.plugin.removeprefix(PLUGIN_PREFIX)
    return use.name if use.name == plugin else f"{use.name} ({plugin})"


def _place(source: str, file: str) -> str:
    """Return a place with what is in the job file named by its lines, without columns."""
    return re.sub(rf"(?<!\S){re.escape(file)}:(\d+):\d+", r"line \1", source)
