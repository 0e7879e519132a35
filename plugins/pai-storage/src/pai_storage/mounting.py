"""The shared part of all storage plugins: mounts, and for each a script that checks it before the task."""

import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from posixpath import normpath
from typing import Any

from pai_runtime.plugin import (
    Contribution,
    Mount,
    ShellStep,
    Task,
    Use,
    UserError,
    has_secret,
    with_user_and_job,
)

SECONDS = 30
"""Timeout in seconds for a storage to answer."""


def public_parameters(use: Use) -> Mapping[str, Any]:
    """Return the parameters of a use.

    Raises `UserError` for a secret in them, since mounts are in the plan.
    """
    for name, value in use.parameters.items():
        if has_secret(value):
            raise UserError(f"{name} contains a secret, but what is mounted, and where, is in the plan")
    return use.parameters


def named_storage(
    task: Task, name: str, path: str | None = None, *, share: bool = True, read_only: bool = False
) -> Mount:
    """Return the mount of a cluster's storage at `path`, by default ``/mnt/<name>``.

    Without `share`, only the user's own directory in it is mounted.
    """
    sub_path = "" if share else _filled("%USER", task)
    return Mount(_path(path or f"/mnt/{name}", task), name, sub_path=sub_path, read_only=read_only)


def nfs_export(task: Task, server: str, export: str, path: str, *, read_only: bool) -> Mount:
    """Return the mount of an export of an NFS server."""
    return Mount(_path(path, task), f"{server}:{_filled(export, task)}", "nfs", read_only=read_only)


def contribution(*mounts: Mount, options: str = "") -> Contribution:
    """Return a contribution of mounts and their checks; `options` are for those that the task mounts."""
    steps = [ShellStep("taskStarts", _check(each, options)) for each in mounts]
    return Contribution(mounts=mounts, steps=steps)


def _check(mount: Mount, options: str) -> str:
    settings = {
        "path": mount.path,
        "source": mount.source,
        "kind": mount.kind,
        "read_only": "yes" if mount.read_only else "",
        "options": ",".join(filter(None, [options, "ro" if mount.read_only else "rw"])),  # the last one wins
        "seconds": str(SECONDS),
    }
    assignments = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
    # In a shell of its own, so that no name in it reaches what comes later.
    return f"(\n{assignments}\n{_script()})\n"


@cache
def _script() -> str:
    return resources.files("pai_storage").joinpath("check.sh").read_text("utf-8")


def _path(text: str, task: Task) -> str:
    return "/" + normpath(_filled(text, task)).lstrip("/")


def _filled(text: str, task: Task) -> str:
    return with_user_and_job(text, task.user, task.job)
