"""Cloning with the program ``git``."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pai_git.request import Request
from pai_git.retries import Retries, asked_pause, is_final
from pai_runtime.plugin import UserError

LONGEST_TRY = 3600.0
"""Timeout in seconds for one run of git."""

SETTINGS = {
    # An answer may take its time, but not without a single byte on the way.
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
    # Transports that run a program of the URL's choice are none; paths are for the job, not for submodules.
    "protocol.allow": "never",
    "protocol.http.allow": "always",
    "protocol.https.allow": "always",
    "protocol.ssh.allow": "always",
    "protocol.git.allow": "always",
    "protocol.file.allow": "user",
    # Nothing may still be at work on a clone that is set in place.
    "gc.auto": "0",
    "maintenance.auto": "false",
}
KEPT_VARIABLES = ("GIT_SSL_", "GIT_SSH", "GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
"""Prefixes of git's variables that belong to the machine and are kept; all others are removed."""

HINTS = {
    "could not read Username": "a private repository needs a token",
    "Authentication failed": "the token is invalid for this repository",
    "Remote branch": "ref must be a branch, a tag or the full id of a commit",
}

_HTTP = ("http://", "https://")
_TIMED_OUT = -signal.SIGKILL
_MOST_OF_TRACE = 1 << 20
"""Maximum bytes at the end of the trace that are read, enough for the last answer's headers."""

_URL = re.compile(r"(https?://)(?:[^\s'/?#]*@)?([^\s'?#]*)[^\s']*", re.IGNORECASE)
"""A URL in git's words, such as that of a submodule: without user, password and query it may be shown."""

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class CloneFailed(UserError):
    """The exception for a failed clone, with git's own message."""


def clone(request: Request, token: str | None, scratch: Path, retries: Retries) -> None:
    """Clone to the folder ``clone`` in `scratch`, an empty folder. Raises `CloneFailed`."""
    with _access(request.uri, token) as access:
        _clone(request, scratch / "clone", _Git(access, scratch / "trace", retries))


def _clone(request: Request, folder: Path, git: "_Git") -> None:
    depth = [f"--depth={request.depth}"] if request.depth else []
    commit = request.ref if request.ref and _COMMIT.fullmatch(request.ref) else None
    options = [*request.options, "--quiet", *depth]
    if commit:
        options.append("--no-checkout")
    elif request.ref:
        options.append(f"--branch={request.ref}")
    is_traced = request.uri.lower().startswith(_HTTP)
    git.run("clone", *options, "--", request.uri, str(folder), makes=folder, is_traced=is_traced)
    there = ["-C", str(folder)]
    if commit:
        if not git.succeeds(*there, "cat-file", "-e", f"{commit}^{{commit}}"):
            git.run(*there, "fetch", "--quiet", *depth, "--", request.uri, commit, is_traced=is_traced)
        git.run(*there, "checkout", "--quiet", "--detach", commit, is_traced=True)
    if request.submodules:
        git.run(*there, "submodule", "--quiet", "update", "--init", "--recursive", *depth)
    head = git.output(*there, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        # An answer that is cut in its first line is an empty repository to git.
        raise CloneFailed(f"{request.uri} has no commit, or its server closed the connection")
    say(f"cloned {request.uri} at {head}")


def say(text: str) -> None:
    """Write a line to the task's log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class _Git:
    def __init__(self, access: "_Access", trace: Path, retries: Retries) -> None:
        self._trace = trace
        self._retries = retries
        self._environment = _environment(trace)
        self._fds = access.fds
        settings = [*(f"{name}={value}" for name, value in SETTINGS.items()), *access.settings]
        self._argv = ["git", *(word for setting in settings for word in ("-c", setting))]

    def run(self, *args: str, makes: Path | None = None, is_traced: bool = False) -> None:
        """Run a git command until it succeeds. Raises `CloneFailed`.

        A failed try may leave what the command `makes`, which is removed. With `is_traced`, its requests to
        servers are in the trace, and an empty trace means that it made none.
        """
        while True:
            if makes:
                shutil.rmtree(makes, ignore_errors=True)
            code, _, words = self._try(args)
            if code == 0:
                return
            say(words)
            trace = self._read_trace()
            least = asked_pause(trace, time.time())
            asked_nobody = is_traced and not trace and code != _TIMED_OUT
            if asked_nobody or is_final(words, trace) or not self._retries.wait(least, say):
                hints = [hint for sign, hint in HINTS.items() if sign in words]
                raise CloneFailed("; ".join([words, *hints]))

    def succeeds(self, *args: str) -> bool:
        """Return whether a read-only git command succeeds."""
        return self._try(args)[0] == 0

    def output(self, *args: str) -> str:
        """Return the output of a read-only git command."""
        return self._try(args)[1].strip()

    def _try(self, args: tuple[str, ...]) -> tuple[int, str, str]:
        """Run git once; return exit code, output and error message."""
        self._trace.unlink(missing_ok=True)
        try:
            process = subprocess.Popen(
                [*self._argv, *args],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                pass_fds=self._fds,
                start_new_session=True,  # no terminal that ssh could ask at, and one group to be ended
            )
        except FileNotFoundError:
            raise CloneFailed("git is not installed where pai_init runs") from None
        with process:
            try:
                output, words = process.communicate(timeout=LONGEST_TRY)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                return _TIMED_OUT, "", f"git timed out after {LONGEST_TRY:.0f} seconds"
        words = _URL.sub(r"\1\2", words)
        return process.returncode, output, words.strip() or f"git ended with exit code {process.returncode}"

    def _read_trace(self) -> str:
        try:
            with self._trace.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_OF_TRACE))
                return file.read(_MOST_OF_TRACE).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""


def _environment(trace: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(KEPT_VARIABLES)
    }
    return kept | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        # The one way to hear of Retry-After. No bodies in it, and git itself leaves out what is secret.
        "GIT_TRACE_CURL": str(trace),
        "GIT_TRACE_CURL_NO_DATA": "1",
    }


@dataclass(frozen=True)
class _Access:
    """Settings for git, and the descriptors that they refer to."""

    settings: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()


@contextmanager
def _access(uri: str, token: str | None) -> Iterator[_Access]:
    """Yield the settings with which git reads the token from an anonymous file by a credential helper.

    They apply to the repository's own server, and to no other that it redirects to.
    """
    if token is None:
        yield _Access()
        return
    if not token.isprintable():
        raise CloneFailed("the token contains a line break or another invalid character")
    parts = urlsplit(uri)
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    user = unquote(parts.username or "x-access-token")
    fd = os.memfd_create("credentials")
    try:
        os.write(fd, f"username={user}\npassword={token}\n".encode())
        helper = f'!f() {{ test "$1" = get && cat /proc/self/fd/{fd}; }}; f'
        yield _Access(("credential.helper=", f"credential.{server}.helper={helper}"), (fd,))
    finally:
        os.close(fd)
