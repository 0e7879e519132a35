"""A run on a cluster, run again: what is kept of it there may have been changed by others.

So nothing is taken from it that names a file of this machine, and no secret is given to a job that is not
one's own.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pai_document.document import parse_document
from pai_document.value import Value
from pai_runtime.cli.given_run import NotThere
from pai_runtime.terminal.output import say

_WITH_VALUE: Final = ("--set", "--role-instances", "--task", "--timeout")
"""The options of a run that name nothing of this machine."""
_ALONE: Final = ("--strict-callbacks",)


def words_elsewhere(words: Sequence[str], on: str, more: Sequence[str]) -> list[str]:
    """Return the arguments by which a run on a cluster is run again there, the path of the job first.

    The job is looked for in the current directory. Raises `NotThere` if the run had options that are to be
    given again.
    """
    # An absolute path and "=" let no argument pass for another option.
    taken, again = [str(Path.cwd() / (Path(words[0]).name or "job.yaml"))], dict[str, str]()
    rest = list(words[1:])
    while rest:
        option = rest.pop(0)
        value = rest.pop(0) if option not in _ALONE and rest and not rest[0].startswith("--") else None
        if option in _ALONE:
            taken.append(option)
        elif value is not None and (option in _WITH_VALUE or (option == "--env" and "=" in value)):
            taken.append(f"{option}={value}")
        elif option != "--on":
            again[option] = f"{option} {value or ''}".strip()
    if missing := [text for option, text in again.items() if not _has(more, option)]:
        raise NotThere(
            f"the run had {shlex.join(missing)}; that is not taken from {on}, where others may have changed"
            " it: give it again, after RUN"
        )
    return [*taken, f"--on={on}"]


def document_elsewhere(text: object, now: str | None, path: Path, more: Sequence[str]) -> Value | None:
    """Return the job as the cluster keeps it; None if `path` has the same, which is `now`.

    Raises `NotThere` if it is not kept, or would be given secrets, and `InvalidInput`.
    """
    if not isinstance(text, str):
        raise NotThere("its job is not kept, since there are secrets in it; run its file again")
    if now == text:
        return None
    root = parse_document(text, str(path))
    if _has(more, "--secrets") or root.get("secrets") is not None:
        raise NotThere(
            f"its job has secrets, which are given only to your own file: {path} is not the job as it was run"
        )
    say(
        f"note: {path} is not the job as it was run; it is taken from the cluster, where others may change it"
    )
    return root


def _has(more: Sequence[str], option: str) -> bool:
    return any(word.partition("=")[0] == option for word in more)
