"""Logins from files that change: the token of a service account, or of a ``tokenFile``."""

import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from pai_kubernetes.api.access import Login
from pai_network.authorization import bearer
from pai_runtime.engine import ClusterError
from pai_runtime.engine.documents import read_file

MOST_OF_FILE: Final = 1 << 20
_FRESH_SECONDS: Final = 60
"""Seconds for which a token is cached; kubelet replaces one long before it expires."""


class TokenFile:
    """A login by the token in a file, which is read again each minute and after a refusal.

    `other` is what else a request shows; `origin` says where the file is configured.
    """

    def __init__(self, path: Path, origin: str, other: Login | None = None) -> None:
        self._path = path
        self._origin = origin
        self._other = other or Login()
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._login: Login | None = None

    def login(self) -> Login:
        """Return the login, from a file read within the last minute; see `Credentials.login`."""
        with self._lock:
            if self._login and time.monotonic() - self._read_at < _FRESH_SECONDS:
                return self._login
            return self._read()

    def renewed(self, refused: Login) -> Login:  # noqa: ARG002 - the file may have the same one
        """Return the login after reading the file again; see `Credentials.renewed`."""
        with self._lock:
            return self._read()

    def _read(self) -> Login:
        try:
            data = read_file(self._path, MOST_OF_FILE)
        except OSError as error:
            message = f"the token in {self._path} cannot be read: {error.strerror}"
            raise ClusterError(f"{self._origin}: {message}") from None
        with suppress(ValueError):
            self._login = replace(self._other, authorization=bearer(data.decode("ascii").strip()))
            self._read_at = time.monotonic()
            return self._login
        raise ClusterError(f"{self._origin}: expected a token in {self._path}, found something else")
