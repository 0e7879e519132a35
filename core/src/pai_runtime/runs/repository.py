"""The commit of a git repository, asked of git without running anything that the repository configures."""

import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from pai_task.record import record

_SECONDS: Final = 3.0
_MOST: Final = 4096
_SAFE: Final = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "protocol.allow=never",
)
# Of these, none compares the content of files, for which filters of the repository would run.
_QUESTIONS: Final = (
    ("rev-parse", "--verify", "HEAD"),
    ("diff-index", "--cached", "--raw", "--no-ext-diff", "--ignore-submodules=all", "HEAD"),
    ("diff-files", "--raw", "--no-ext-diff", "--ignore-submodules=all"),
    ("ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory"),
)


@record(frozen=True)
class Commit:
    """A commit, and whether the files differ from it: changed, added, or touched since git looked at them."""

    id: str
    is_dirty: bool


def commit_of(folder: Path) -> Commit | None:
    """Return the commit that is checked out around a directory; None if there is none, or git is not here."""
    git = shutil.which("git")
    if git is None or not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    until = time.monotonic() + _SECONDS
    try:
        asked = [
            subprocess.Popen(
                [git, *_SAFE, "-C", str(folder), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            for words in _QUESTIONS
        ]
    except OSError:
        return None
    first, *changes = [_begin_of_answer(each, until) for each in asked]
    id_ = (first or b"").decode("ascii", "replace").strip()
    if not id_.isalnum() or len(id_) > 64:  # noqa: PLR2004 - hexadecimal digits of SHA-256
        return None
    return Commit(id_, any(change != b"" for change in changes))


def _begin_of_answer(process: "subprocess.Popen[bytes]", until: float) -> bytes | None:
    """Return the first bytes that a process writes, and end it; None if it takes too long."""
    with process:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        poll = select.poll()  # not `select.select`, whose descriptors are below 1024
        poll.register(process.stdout, select.POLLIN)
        ready = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        answer = os.read(process.stdout.fileno(), _MOST) if ready else None
        process.kill()
    return answer
