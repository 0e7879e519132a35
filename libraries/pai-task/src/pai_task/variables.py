"""The environment of a task: the current values, and the source of each variable.

A step sets variables by exporting them in its shell, or from any language by appending to the file that
``$PAI_ENV`` names:

- ``NAME=value``: a value of one line,
- ``NAME<<END``, then lines, then a line ``END``: a value of several lines, with any word for ``END``,
- ``PATH+=/folder``: the folder comes before all others on ``PATH``.
"""

from __future__ import annotations

import os

from pai_task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NOT_CARRIED = {
    *("_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "OPTIND"),
    *("PPID", "UID", "EUID", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME"),
}
"""Variables that a shell sets for itself and that are not carried over to the next step."""

IMAGE = "image"
RUNTIME = "runtime"

LONGEST_STRING = 128 * 1024
"""Maximum bytes of one variable, with its name, for the kernel (``MAX_ARG_STRLEN``)."""
MOST_PEERS = 256 * 1024
"""Maximum bytes of peers' variables that are exported. The kernel takes about 2 MiB of everything, but
long before that each start of a shell, which reads them all, takes seconds."""


@record(frozen=True)
class Setting:
    """A variable that a step set through the file.

    With `is_path_entry`, the value is prepended to PATH.
    """

    name: str
    value: str
    is_path_entry: bool = False


class Variables:
    """The current environment variables of a task, each with its source."""

    def __init__(self, image: Mapping[str, str]) -> None:
        self.environment = dict(image)
        self.sources = dict.fromkeys(image, IMAGE)

    def update(self, values: Mapping[str, str], source: str) -> None:
        """Set variables, all from one source."""
        self.environment.update(values)
        self.sources.update(dict.fromkeys(values, source))

    def after_step(
        self, exported: Mapping[str, str] | None, settings: Iterable[Setting], source: str
    ) -> None:
        """Take over what a step left: its exported environment (None: unknown) and its settings."""
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
    """Return whether a variable is carried over; a shell's own variables and its functions are not."""
    return name not in NOT_CARRIED and not name.startswith("BASH_FUNC_")


def parse_settings(text: str) -> Iterator[Setting | str]:
    """Yield the settings in the text of a ``$PAI_ENV`` file, and a string for each invalid line."""
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
    """Return a setting, or as a string the reason why no process could be started with it."""
    if "\0" in value:
        return f"line {number}: the value of {name} has a NUL in it"
    if _size(name, value) > LONGEST_STRING:
        return f"line {number}: the value of {name} is longer than {LONGEST_STRING} bytes"
    return Setting(name, value, is_path_entry)


def _size(name: str, value: str) -> int:
    """Return the number of bytes that a variable takes in an environment."""
    return len(os.fsencode(f"{name}={value}")) + 1


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def those_that_fit(variables: Mapping[str, str], most: float = float("inf")) -> dict[str, str]:
    """Return the variables that the kernel can pass to a process, in at most `most` bytes of all."""
    names, values = "".join(variables), "".join(variables.values())
    if _size(names, values) + 2 * len(variables) <= min(LONGEST_STRING, most):
        return dict(variables)
    fit: dict[str, str] = {}
    for name, value in variables.items():
        size = _size(name, value)
        most -= size
        if size <= LONGEST_STRING and most >= 0:
            fit[name] = value
    return fit
