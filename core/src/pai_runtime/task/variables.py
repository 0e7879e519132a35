"""The environment of a task: the current values, and the source of each variable.

A step sets variables by exporting them in its shell, or from any language by appending to the file that
``$PAI_ENV`` names:

- ``NAME=value``: a value of one line,
- ``NAME<<END``, then lines, then a line ``END``: a value of several lines, with any word for ``END``,
- ``PATH+=/folder``: the folder comes before all others on ``PATH``.
"""

from __future__ import annotations

import os

from pai_runtime.task.plan import PEERS, Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from dataclasses import dataclass as record
else:
    from pai_runtime.task.record import record

NOT_CARRIED = {
    *("_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "OPTIND"),
    *("PPID", "UID", "EUID", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME"),
}
"""What a shell sets for itself: a step's working directory is its own."""

IMAGE = "image"
RUNTIME = "runtime"

LONGEST_STRING = 128 * 1024
"""Bytes of one variable, with its name, that the kernel takes (MAX_ARG_STRLEN)."""
MOST_PEERS = 256 * 1024
"""Bytes of the peers' variables that are exported. The kernel takes about 2 MiB of everything together, but
long before that each start of a shell, which reads them all, takes seconds."""


@record(frozen=True)
class Setting:
    """A variable that a step set through the file. `is_path_entry`: the value comes first on PATH."""

    name: str
    value: str
    is_path_entry: bool = False


class Variables:
    """The variables by name, each with its source."""

    def __init__(self, image: Mapping[str, str], contributed: Iterable[Variable]) -> None:
        self.environment: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.update(image, IMAGE)
        for variable in contributed:
            self.update({variable.name: variable.value}, variable.source)

    def update(self, values: Mapping[str, str], source: str) -> None:
        """Set variables."""
        self.environment.update(values)
        self.sources.update(dict.fromkeys(values, source))

    def after_step(
        self, exported: Mapping[str, str] | None, settings: Iterable[Setting], source: str
    ) -> None:
        """Take over what a step left: the environment that it exported (None: unknown) and its settings."""
        if exported is not None:
            before = self.environment
            carried = {name: value for name, value in exported.items() if _is_carried(name)}
            kept = {name: value for name, value in before.items() if not _is_carried(name)}
            changed = {name: value for name, value in carried.items() if before.get(name) != value}
            self.environment = {**carried, **kept}
            self.sources = {name: self.sources[name] for name in self.environment if name in self.sources}
            self.update(changed, source)
        for setting in settings:
            value = setting.value
            if setting.is_path_entry:
                value = os.pathsep.join(filter(None, [value, self.environment.get("PATH", "")]))
            self.update({setting.name: value}, source)


def _is_carried(name: str) -> bool:
    """A shell's own variables and functions stay with it."""
    return name not in NOT_CARRIED and not name.startswith("BASH_FUNC_")


def parse_settings(text: str) -> Iterator[Setting | str]:
    """The settings in the text of a ``$PAI_ENV`` file; a line that is none comes out as the reason why."""
    lines = iter(enumerate(text.split("\n"), 1))
    for number, line in lines:
        before, _, word = line.partition("<<")
        name, equals, value = line.partition("=")
        if _is_name(before) and word.split() == [word]:
            block: list[str] = []
            for _, inner in lines:
                if inner == word:
                    yield _setting(number, before, "\n".join(block))
                    break
                block.append(inner)
            else:
                yield f"line {number}: unterminated value of {before}: no line is '{word}'"
        elif equals and name == "PATH+":
            yield _setting(number, "PATH", value, is_path_entry=True)
        elif equals and _is_name(name):
            yield _setting(number, name, value)
        elif line:
            yield f"line {number} is not NAME=value"


def _setting(number: int, name: str, value: str, *, is_path_entry: bool = False) -> Setting | str:
    """A setting, unless no process could be started with it any more."""
    if "\0" in value:
        return f"line {number}: the value of {name} has a NUL in it"
    if _size(name, value) > LONGEST_STRING:
        return f"line {number}: the value of {name} is longer than {LONGEST_STRING} bytes"
    return Setting(name, value, is_path_entry)


def _size(name: str, value: str) -> int:
    """Bytes of a variable in an environment."""
    return len(os.fsencode(f"{name}={value}")) + 1


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def those_that_fit(variables: Iterable[Variable]) -> tuple[list[Variable], list[Variable]]:
    """The variables that the kernel lets a process have, and the peers' that have no room beside them."""
    fit: list[Variable] = []
    left_out: list[Variable] = []
    total = 0
    for variable in variables:
        size = _size(variable.name, variable.value)
        total += size if variable.source == PEERS else 0
        is_small = size <= LONGEST_STRING and (variable.source != PEERS or total <= MOST_PEERS)
        (fit if is_small else left_out).append(variable)
    return fit, left_out
