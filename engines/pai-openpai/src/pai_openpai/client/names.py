"""Names of runs, and of task roles as the cluster writes them."""

import re
import secrets
from typing import Final

MOST_CHARACTERS: Final = 255
_SUFFIX: Final = re.compile("_[0-9a-f]{8}")
_NAME: Final = re.compile("[a-zA-Z0-9_-]{1,255}")
_USER: Final = re.compile(r"[\w.@+-]{1,255}", re.ASCII)


def new_name(job: str) -> str:
    """Return a name for a run of a job that hardly any other has: on OpenPAI, names are used up for ever."""
    suffix = f"_{secrets.token_hex(4)}"
    return job[: MOST_CHARACTERS - len(suffix)] + suffix


def job_of(name: str) -> str:
    """Return the job's name in that of a run."""
    return name[:-9] if len(name) > 9 and _SUFFIX.fullmatch(name[-9:]) else name  # noqa: PLR2004 - the suffix's length


def split_name(named: str, own: str) -> tuple[str, str] | None:
    """Return the user and the name that people mean by ``NAME``, one of their `own`, or ``USER~NAME``."""
    user, tilde, name = named.rpartition("~")
    user = user if tilde else own
    return (user, name) if _NAME.fullmatch(name) and _USER.fullmatch(user) else None
