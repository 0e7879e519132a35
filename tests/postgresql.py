"""Debian's PostgreSQL, started by the tests as an ordinary user, on a socket and without a network."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import psycopg

from tests.support import until

PROGRAMS: Final = "/usr/lib/postgresql/*/bin/initdb"
"""Where one of its programs is; the others are beside it."""
_NOBODY: Final[Mapping[str, Any]] = {"user": "nobody", "group": "nogroup", "extra_groups": []}


_Server = TypeVar("_Server", bound="PostgreSql")


class PostgreSql:
    """A server with its data in a folder of its own; what it keeps need not outlive the machine."""

    def __enter__(self: _Server) -> _Server:  # noqa: PYI019 - Python 3.10 has no Self
        # Not pytest's: nobody else may enter that, and the path of a socket is short.
        self._folder = Path(tempfile.mkdtemp(prefix="pai-postgresql-"))
        as_user = _NOBODY if os.geteuid() == 0 else {}
        if as_user:
            shutil.chown(self._folder, "nobody", "nogroup")
        data, programs = self._folder / "data", max(Path("/").glob(PROGRAMS[1:])).parent
        how: Mapping[str, Any] = {**as_user, "cwd": self._folder, "env": {"PATH": os.environ["PATH"]}}
        options = ["--auth=trust", "--username=market", "--no-sync", "--encoding=UTF8", "--locale=C"]
        subprocess.run([programs / "initdb", *options, data], check=True, capture_output=True, **how)
        settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=300"]
        argv = [str(programs / "postgres"), "-D", str(data), "-k", str(self._folder), *settings]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **how)
        self._names = (f"market{number}" for number in count())
        until(self._answers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder)

    def new_database(self) -> str:
        """The URL of a new database."""
        name = next(self._names)
        with self._connect() as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://market@/{name}?host={self._folder}"

    def _connect(self) -> "psycopg.Connection[Any]":
        return psycopg.connect(f"postgresql://market@/postgres?host={self._folder}", autocommit=True)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self._folder / "log").read_text("utf-8", "replace"))
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True
