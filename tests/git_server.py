"""Real git repositories behind a real HTTP server, which can be told to do its worst; and behind others."""

import base64
import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from pai_git.retries import Retries
from pai_runtime.engines.local.ports import free_ports
from tests.local_server import LocalServer


@dataclass(frozen=True)
class Fault:
    """What one request gets in the place of its answer.

    `status` 0 is no answer at all: the connection is cut, after `part` bytes of the real answer; or with
    `hang` it stands still until the server ends. With `slowly` the answer is right, and comes byte by byte.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    part: int = 0
    hang: bool = False
    slowly: bool = False


@dataclass(frozen=True)
class Request:
    """What a client asked for, and the user and password that it gave."""

    path: str
    credentials: str | None


class GitServer(LocalServer):
    """Serves the repositories below a folder; a context manager.

    `faults` come first, one for each request. Then `password`, if there is one, must be given, and `admit`
    must let the request in; else it is answered by 429. `seen` is called with each request that came.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(_Handler)
        self.root = root
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.password: str | None = None
        self.admit: Callable[[], bool] = lambda: True
        self.seen: Callable[[Request], None] = lambda _: None


class _Handler(BaseHTTPRequestHandler):
    server: GitServer

    def do_GET(self) -> None:
        server = self.server
        request = Request(self.path, _credentials(self.headers.get("Authorization")))
        with server.lock:
            server.requests.append(request)
            fault = server.faults.pop(0) if server.faults else None
            admitted = fault is not None or server.admit()
        server.seen(request)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault is not None:
            self._do_wrong(fault, body)
        elif server.password is not None and request.credentials != server.password:
            self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'})
        elif not admitted:
            self._answer(429, {"Retry-After": "1"})
        else:
            self.wfile.write(self._real_answer(body))

    do_POST = do_GET  # noqa: N815 - the name is the base class's

    def _do_wrong(self, fault: Fault, body: bytes) -> None:
        if fault.hang:
            self.server.ended.wait()
        elif fault.slowly:
            for byte in self._real_answer(body):
                self.wfile.write(bytes([byte]))
        elif fault.status:
            self._answer(fault.status, fault.headers)
        else:
            self.wfile.write(self._real_answer(body)[: fault.part])

    def _answer(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _real_answer(self, body: bytes) -> bytes:
        path, _, query = self.path.partition("?")
        variables = {
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        given = subprocess.run(
            ["git", "http-backend"],
            env={**os.environ, **variables},
            input=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        ).stdout
        head, _, content = given.partition(b"\r\n\r\n")
        status = b"200 OK"
        for line in head.split(b"\r\n"):
            if line.startswith(b"Status: "):
                status = line.removeprefix(b"Status: ")
        length = f"\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        return b"HTTP/1.0 " + status + b"\r\n" + head + length + content

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are kept in `GitServer.requests`."""


def _credentials(header: str | None) -> str | None:
    return base64.b64decode(header.removeprefix("Basic ")).decode() if header else None


def git(folder: Path, *args: str) -> str:
    """Run git in a folder, with nobody's settings; what it prints."""
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *args], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def make_repository(folder: Path, *, commits: int = 3) -> list[str]:
    """A repository with a branch ``main``, ``dev`` at its second commit and a tag ``v1`` at the first.

    It has a dotfile, a symbolic link and a program. The ids of the commits on ``main``.
    """
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / ".hidden").write_text("dot\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    ids = []
    for number in range(1, commits + 1):
        (folder / "version").write_text(f"{number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"Version {number}")
        ids.append(git(folder, "rev-parse", "HEAD"))
    git(folder, "tag", "v1", ids[0])
    git(folder, "branch", "dev", ids[:2][-1])
    return ids


def admits(rate: float, clock: Callable[[], float]) -> Callable[[], bool]:
    """A server's limit: so many a second, one second's worth at once."""
    state = [rate, clock()]

    def admit() -> bool:
        tokens, then = state
        now = clock()
        tokens = min(rate, tokens + (now - then) * rate)
        state[:] = [tokens - 1 if tokens >= 1 else tokens, now]
        return tokens >= 1

    return admit


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.now = 1000.0
        self.on_sleep = on_sleep
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.on_sleep()
        self.pauses.append(seconds)
        self.now += seconds

    def retries(self, budget: float = 600) -> Retries:
        return Retries(budget, lambda: self.now, self.sleep)


@contextmanager
def git_daemon(root: Path) -> Iterator[int]:
    """The port at which git's own server, ``git://``, serves the repositories below a folder."""
    port = _free_port()
    options = ["--listen=127.0.0.1", f"--port={port}", f"--base-path={root}", "--export-all", "--verbose"]
    with serving(["git", "daemon", *options], "Ready to rumble"):
        yield port


@dataclass(frozen=True)
class SshServer:
    """OpenSSH's server for whoever runs the tests; `folder` has the one `key` that it lets in."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"ssh://127.0.0.1:{self.port}"

    @property
    def command(self) -> str:
        """What is to be called in the place of ``ssh``, by one who has the key and knows the server."""
        return shlex.join(["ssh", "-F", f"{self.folder}/config"])


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """An sshd, with its files, and those of its clients, in `folder`."""
    folder.mkdir()
    for name in ("key", "host_key"):
        path = str(folder / name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    (folder / "key.pub").rename(folder / "authorized_keys")
    port = _free_port()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}")
    (folder / "config").write_text(
        f'IdentityFile "{folder}/key"\nIdentitiesOnly yes\nUserKnownHostsFile "{folder}/known_hosts"\n'
        "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
    )
    (folder / "sshd_config").write_text(
        f'Port {port}\nListenAddress 127.0.0.1\nHostKey "{folder}/host_key"\nPidFile none\n'
        f'AuthorizedKeysFile "{folder}/authorized_keys"\nStrictModes no\nUsePAM no\n'
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd's own, which its service makes on a machine
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
    with serving([program, "-D", "-e", "-f", str(folder / "sshd_config")], "Server listening on"):
        yield SshServer(folder, port)


def _free_port() -> int:
    (port,) = free_ports(1)
    return port


@contextmanager
def serving(argv: Sequence[str], sign: str) -> Iterator[None]:
    """A server that says on standard error when it is ready."""
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if sign in line:
                break
        else:
            raise RuntimeError(f"{argv[0]} ended: {said}")
        drain = threading.Thread(target=process.stderr.read)
        drain.start()
        try:
            yield
        finally:
            process.terminate()
            drain.join()
