"""A command in exec form: one program with its arguments, run without a shell."""

from __future__ import annotations

import os
import re

from pai_task.supervisor.shell import NoShell, Shell, which

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pai_task.plan import Plan

_WORD = r"""(?:[A-Za-z0-9_@%+=:,./-]|'[^'\0]*'|"[^"$`\\\0]*")+"""
_COMMAND = re.compile(rf"\s*{_WORD}(?:[ \t]+{_WORD})*\s*")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")


def words(script: str) -> list[str] | None:
    """Return the words of a script that is one simple command; None if only a shell can interpret it.

    It needs a shell if it has more than words and quotes: several lines, variables, patterns, operators,
    secrets.
    """
    if not _COMMAND.fullmatch(script):
        return None
    found = [_QUOTED.sub(r"\1\2", word) for word in re.findall(_WORD, script)]
    return None if "=" in found[0] else found


class ExecForm(Shell):
    """A stand-in for the shell where the image has none and the plan needs none; else raises `NoShell`."""

    reads_script = False

    def __init__(self, environment: Mapping[str, str], plan: Plan, missing: NoShell) -> None:
        argv = words(plan.command.script)
        if argv is None or plan.services or any(step.script is not None for step in plan.steps):
            raise missing
        self.search_path = environment.get("PATH", os.defpath)
        program = argv[0] if "/" in argv[0] else which(argv[0], self.search_path)
        if program is None:  # perhaps it is for a shell itself, such as `exit`
            raise missing
        self.path = "/bin/sh"  # where people who want one are told that there is none
        self._words = [program, *argv[1:]]

    def command(self, name: str, *, stop_at_error: bool, nounset: bool = False) -> list[str]:  # noqa: ARG002 - as with a shell
        """Return the argv of the program."""
        return self._words
