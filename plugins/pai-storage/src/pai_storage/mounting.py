"""What all storage plugins contribute: mounts, and for each a script that checks it before the task."""

import re
import shlex
from functools import cache
from importlib import resources
from posixpath import normpath

from pai_runtime.plugin import Contribution, Mount, Shell

SECONDS = 30
"""How long a storage may take to answer."""

_NAMES = {"%USER": '"$PAI_USER_NAME"', "%JOB": '"$PAI_JOB_NAME"'}


def named_storage(
    name: str, path: str | None = None, *, share: bool = True, read_only: bool = False
) -> Mount:
    """A storage of the cluster, by default at ``/mnt/<name>``; of one that is not shared, the user's."""
    return Mount(
        _shortest(path or f"/mnt/{name}"), name, sub_path="" if share else "%USER", read_only=read_only
    )


def nfs_export(server: str, export: str, path: str, *, read_only: bool) -> Mount:
    """An export of an NFS server."""
    return Mount(_shortest(path), f"{server}:{export}", "nfs", read_only=read_only)


def contribution(*mounts: Mount, options: str = "") -> Contribution:
    """The mounts, and their checks. `options` are for one that the task's container makes itself."""
    return Contribution(mounts=mounts, steps=[Shell("taskStarts", _check(each, options)) for each in mounts])


def _check(mount: Mount, options: str) -> str:
    settings = {
        "path": mount.path,
        "source": mount.source,
        "kind": mount.kind,
        "read_only": "yes" if mount.read_only else "",
        "options": ",".join(filter(None, ["ro" if mount.read_only else "rw", options])),
        "seconds": str(SECONDS),
    }
    assignments = " ".join(f"{name}={_word(value)}" for name, value in settings.items())
    # In a shell of its own, so that no name in it reaches what comes later.
    return f"(\n{assignments}\n{_script()})\n"


def _word(text: str) -> str:
    """A word of a shell script, with the names of user and job where the text asks for them."""
    parts = re.split("(%USER|%JOB)", text, flags=re.IGNORECASE)
    return "".join(_NAMES.get(part.upper()) or shlex.quote(part) for part in parts if part) or "''"


@cache
def _script() -> str:
    return resources.files("pai_storage").joinpath("check.sh").read_text("utf-8")


def _shortest(path: str) -> str:
    return "/" + normpath(path).lstrip("/")
