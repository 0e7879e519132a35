"""The command in a process of its own, without the start of an interpreter, which takes most of its time.

A server has the modules of the command loaded, in an interpreter that was started as the command starts its
own, has read which plugins are installed, and forks a process for each command line. What a process is given
when it starts (limits, closed streams, variables that the interpreter reads) is for tests that start the
program itself.
"""

import atexit
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_SERVER = """
import atexit, contextlib, gc, importlib.metadata, json, os, pkgutil, resource, socket, sys, time, traceback
sys.path[:] = json.loads(sys.argv[1])
import cryptography.hazmat.primitives.asymmetric.ed25519, cryptography.hazmat.primitives.serialization
import jinja2.sandbox, jsonschema, packaging.requirements, packaging.specifiers, packaging.version
import pluggy, urllib3, yaml
for name in sys.argv[3:]:
    package = importlib.import_module(name)
    for each in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not each.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # which is that of the commands that need the module
                importlib.import_module(each.name)
import pai_runtime.cli
from pai_runtime.host.host import Host, InstalledPlugins
installed = InstalledPlugins()
assert dict(installed)  # reads all of them
gc.freeze()

def run(given):
    os.chdir(given["cwd"])
    os.umask(given["umask"])
    resource.setrlimit(resource.RLIMIT_NOFILE, given["files"])
    os.environ.clear()
    os.environ.update(given["environment"])
    time.tzset()
    # As the interpreter has them before its own; an empty one is the working directory.
    if first := os.environ.get("PYTHONPATH"):
        sys.path[:0] = map(os.path.abspath, first.split(":"))
    else:
        Host.installed = installed
    sys.argv[1:] = given["args"]
    try:
        sys.exit(pai_runtime.cli.main())
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)

connection = socket.socket(fileno=int(sys.argv[2]))
while True:
    _, fds, _, _ = socket.recv_fds(connection, 1, 3)
    if not fds:
        break
    pid = os.fork()
    if not pid:
        connection.close()
        with os.fdopen(fds[0]) as request:
            given = json.load(request)
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, number in ((null, 0), (fds[1], 1), (fds[2], 2)):
            os.dup2(fd, number)
            os.close(fd)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        run(given)
    for fd in fds:
        os.close(fd)
    _, status = os.waitpid(pid, 0)
    connection.send(json.dumps([status, sum(os.times()[:4])]).encode())
"""

_LATEST = 120.0
_MOST_ANSWER = 100
_SPENT: dict[socket.socket, float] = {}
_USE_MORE = {"--on", "init", "lock", "marketplace"}
_MORE = ("pai_definitions", "pai_pod", "pai_openpai", "pai_kubernetes")
"""What commands with one of these words load if the policy allows it, of which other tests are."""
_READ_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that the interpreter reads begin with these; but PYTHONPATH is known here."""


def spent_by_forked_commands() -> float:
    """CPU seconds of all that has been run here, and of the servers."""
    return sum(_SPENT.values())


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether these variables mean the same to a process that has not started an interpreter."""
    return not any(name.startswith(_READ_AT_START) and name != "PYTHONPATH" for name in environment)


def forked_command(
    args: Sequence[str], cwd: Path | None, environment: Mapping[str, str], *, together: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """What the command does with these arguments, in an environment of just these variables.

    With `together` its standard error is in its standard output.
    """
    server = _server("pai_runtime", "pai_document", *(() if _USE_MORE.isdisjoint(args) else _MORE))
    umask = os.umask(0o077)
    os.umask(umask)
    given = {
        "args": args,
        "cwd": str(Path.cwd() / cwd if cwd else Path.cwd()),
        "umask": umask,
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "environment": dict(environment),
    }
    request = os.memfd_create("request")
    with os.fdopen(request, "w", closefd=False) as file:
        json.dump(given, file)
    os.lseek(request, 0, os.SEEK_SET)
    (stdout, its_stdout), (stderr, its_stderr) = os.pipe(), os.pipe()
    socket.send_fds(server, [b"\n"], [request, its_stdout, its_stdout if together else its_stderr])
    for fd in (request, its_stdout, its_stderr):
        os.close(fd)
    written = _read_to_their_ends(stdout, stderr)
    status, _SPENT[server] = json.loads(server.recv(_MOST_ANSWER))
    return subprocess.CompletedProcess(list(args), os.waitstatus_to_exitcode(status), *written)


@cache
def _server(*packages: str) -> socket.socket:
    """Starts one that has all modules of these packages loaded."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_LATEST)
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _SERVER,
        json.dumps(_search_path()),
        str(its.fileno()),
        *packages,
    ]
    with its:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its.fileno()]
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _search_path() -> list[str]:
    """That of an interpreter to which no variable gives another one."""
    show = "import json, sys; print(json.dumps([each for each in sys.path if each.startswith('/')]))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    shown = subprocess.run([sys.executable, "-c", show], env=environment, capture_output=True, check=True)
    path: list[str] = json.loads(shown.stdout)
    return path


def _read_to_their_ends(*pipes: int) -> list[bytes]:
    """What comes through the pipes until nobody has them open any more."""
    latest = time.monotonic() + _LATEST
    data = dict.fromkeys(pipes, b"")
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(latest - time.monotonic())
            assert ready, f"the command has not ended within {_LATEST} s: {data}"
            for key, _ in ready:
                if piece := os.read(key.fd, 1 << 16):
                    data[key.fd] += piece
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return [data[pipe] for pipe in pipes]
