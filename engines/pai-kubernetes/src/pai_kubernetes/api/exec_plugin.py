"""Logins from a command of the user's, an exec plugin (``client.authentication.k8s.io``)."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from pai_kubernetes.api.access import Login
from pai_kubernetes.api.times import seconds
from pai_network.authorization import bearer
from pai_network.deadline import Deadline
from pai_runtime.engine import ClusterError
from pai_runtime.engine.messages import printable, report

SECONDS: Final = 180
"""Timeout of the command in seconds; a login on a web page takes a person a minute or two."""
MOST_BYTES: Final = 1 << 20

_MARGIN: Final = 10
"""Seconds before its expiry at which a login counts as expired, so that it lasts for a request."""
_MOST_SAID: Final = 1000
_MOST_REPORTED: Final = 1 << 16
_PIECE: Final = 1 << 12


@dataclass(frozen=True)
class ExecConfig:
    """The configuration of an exec plugin from a kubeconfig; `origin` says where.

    ``repr`` does not show `env`, `args` and the rest. `cluster` is what it is told of the cluster, if it
    wants to know.
    """

    origin: str
    api_version: str
    command: str
    args: Sequence[str] = field(default_factory=tuple, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    hint: str = ""
    mode: str = "IfAvailable"
    cluster: Mapping[str, Any] | None = field(default_factory=lambda: None, repr=False)


class ExecPlugin:
    """A source of logins that runs the command when a login is needed, has expired or was refused."""

    def __init__(self, config: ExecConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._login: Login | None = None

    def login(self) -> Login:
        """Return a valid login; see `Credentials.login`."""
        with self._lock:
            login = self._login
            if login is None or (login.expires is not None and login.expires < time.time() + _MARGIN):
                self._login = login = ask(self._config)
            return login

    def renewed(self, refused: Login) -> Login:
        """Return a new login; of several threads with the same refused one, only one runs the command."""
        with self._lock:
            login = self._login
            if login is None or login == refused:
                self._login = login = ask(self._config)
            return login


def ask(config: ExecConfig) -> Login:
    """Run the command, and return its login.

    Raises `ClusterError` with its output after `SECONDS` or a failure.
    """
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if config.mode == "Always" and not is_terminal:
        raise _failed(config, "it needs a terminal to ask at, and there is none")
    interactive = is_terminal and config.mode != "Never"
    process = _start(config, interactive=interactive)
    assert process.stdout  # noqa: S101 - for the type checker, as the next
    assert process.stderr  # noqa: S101
    output, words = _Reader(process.stdout), _Reader(process.stderr, shown=interactive)
    code = None
    try:
        code = _finish(process, Deadline(SECONDS), output, words)
    except subprocess.TimeoutExpired:
        raise _failed(config, f"it did not end within {SECONDS} seconds", words.text) from None
    finally:
        if code is None:
            _kill(process, is_group=not interactive)
        process.wait()
        output.close()
        words.close()
    if output.is_too_large or words.is_too_large:
        raise _failed(config, f"it printed more than {MOST_BYTES} bytes")
    if code:
        raise _failed(config, f"it ended with exit code {code}", words.text)
    return _login(config, bytes(output.data), words.text)


def _start(config: ExecConfig, *, interactive: bool) -> subprocess.Popen[bytes]:
    spec: dict[str, Any] = {"interactive": interactive}
    if config.cluster is not None:
        spec["cluster"] = config.cluster
    info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **config.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        return subprocess.Popen(
            [config.command, *config.args],
            env=environment,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=not interactive,  # one group to be ended; but a terminal is the first session's
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has an argument that no program can have"
        hint = f"; {printable(config.hint[:_MOST_SAID])}" if config.hint else ""
        raise _failed(config, f"it cannot be started: {why}{hint}") from None


class _Reader:
    """A reader of a stream that keeps a limited part of it; if `shown`, people see it as it comes."""

    def __init__(self, stream: IO[bytes], *, shown: bool = False) -> None:
        self.data = bytearray()
        self.is_too_large = False
        self._stream = stream
        self._shown = shown
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the stream if it has ended; a stray process may keep it open."""
        self.thread.join(1)
        if not self.thread.is_alive():
            self._stream.close()

    def _read(self) -> None:
        with suppress(OSError):
            while piece := os.read(self._stream.fileno(), _PIECE):
                if self._shown and len(self.data) < _MOST_REPORTED:
                    report(*piece.decode("utf-8", "replace").splitlines())
                self.is_too_large = len(self.data) + len(piece) > MOST_BYTES
                if self.is_too_large:
                    return
                self.data += piece


def _finish(process: subprocess.Popen[bytes], deadline: Deadline, *readers: _Reader) -> int | None:
    """Return the exit code once all output is read; None if it is too much. Raises `TimeoutExpired`."""
    for reader in readers:  # first: one that prints without end is not waited for
        reader.thread.join(deadline.left())
        if reader.is_too_large:
            return None
    if any(reader.thread.is_alive() for reader in readers):
        raise subprocess.TimeoutExpired(process.args, SECONDS)
    return process.wait(deadline.left())


def _kill(process: subprocess.Popen[bytes], *, is_group: bool) -> None:
    with suppress(ProcessLookupError):
        if is_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _login(config: ExecConfig, output: bytes, words: str) -> Login:
    """Return the login in an ``ExecCredential``. Raises `ClusterError`, without any of it."""
    try:
        document = json.loads(output)
    except (ValueError, RecursionError):
        raise _failed(config, "it printed no JSON", words) from None
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != "ExecCredential":
        raise _failed(config, "expected an ExecCredential with a status, it printed something else", words)
    if document.get("apiVersion") != config.api_version:
        raise _failed(config, f"expected an answer of version {config.api_version}, it gave another")
    token, expires = status.get("token"), status.get("expirationTimestamp")
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not (token or (certificate and key)):
        raise _failed(config, "it gave neither a token nor a client certificate with its key", words)
    texts = [each for each in (token, certificate, key, expires) if each is not None]
    if not all(isinstance(each, str) for each in texts):
        raise _failed(config, "a field of its status is no text")
    try:
        authorization = bearer(token) if token else ""
    except ValueError as error:
        raise _failed(config, f"its token is none: {error}") from None
    end = seconds(expires) if expires else None
    if expires and end is None:
        raise _failed(config, "its expirationTimestamp is no time")
    return Login(authorization, (certificate or "").encode(), (key or "").encode(), end)


def _failed(config: ExecConfig, why: str, words: str = "") -> ClusterError:
    said = " | ".join(line for line in words[-_MOST_SAID:].splitlines() if line.strip())
    command = printable(Path(config.command).name)
    tail = f"; it said: {printable(said)}" if said else ""
    return ClusterError(
        f"{config.origin}: the command '{command}', which gives the login, failed: {why}{tail}"
    )
