"""The network of a run, and a lock by which a later run knows that it was left by one that was killed."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from pai_container.client import Client, ProgramFailed
from pai_runtime.engine import CannotRun
from pai_runtime.engine.local import user_directory

_LABEL: Final = "com.microsoft.pai.run"


class Network:
    """A new network of the program of a client; `lock` is an open file, locked while one has it open.

    What runs of this user have left that were killed is removed first. Raises `ProgramFailed`, `CannotRun`
    and OSError.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client
        cache = user_directory("XDG_CACHE_HOME", ".cache")
        if cache is None:
            raise CannotRun(
                "there is no home directory, in which is noted which containers are to be removed"
            )
        locks = cache / "containers"
        locks.mkdir(0o700, parents=True, exist_ok=True)
        for path in locks.glob(f"*.{client.kind}"):
            _remove_dead(client, path)
        self._path = locks / f"{name}.{client.kind}"
        before = locks / f"{name}.new"  # at which nobody looks until it is locked
        self.lock = _locked(before)
        before.rename(self._path)
        try:
            client.call("network", "create", f"--label={_LABEL}={name}", name)
        except BaseException:
            self._forget()
            raise

    def remove(self) -> None:
        """Remove the network, with the containers in it."""
        if _is_removed(self._client, self.name):
            self._forget()
        else:
            os.close(self.lock)  # for a later run to try

    def _forget(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self.lock)


def _locked(path: Path) -> int:
    """Lock a file for this process and those that inherit it. Raises OSError if it is locked."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _remove_dead(client: Client, path: Path) -> None:
    try:
        fd = _locked(path)
    except OSError:  # its run lives
        return
    try:
        if _is_removed(client, path.stem):
            path.unlink(missing_ok=True)
    finally:
        os.close(fd)


def _is_removed(client: Client, network: str) -> bool:
    with contextlib.suppress(ProgramFailed):
        client.call("network", "rm", network)
        return True
    try:
        left = client.call("ps", "--all", "--quiet", f"--filter=network={network}").split()
        if left:
            client.call("rm", "--force", *left)
        if network in client.call("network", "ls", "--format={{.Name}}").split():
            client.call("network", "rm", network)
    except ProgramFailed:
        return False
    return True
