"""Record what programs print that fail in earnest, with the versions that ran: the logs of `tests/recorded`.

Not for every run of the tests: it needs root (a small disk is mounted) and environments with the packages.

    ./dev python tools/record_failures.py old=/a/bin/python new=/b/bin/python torch=/c/bin/python [NAME…]
"""

import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

HERE = Path("plugins/pai-failure-analysis/tests/recorded")
SECONDS = 120
FIRST_LINES, LAST_LINES, COLUMNS = 15, 45, 600
"""Lines that are kept of a log at its beginning and end, and characters of a line."""

STATUS = {
    "403": "Forbidden",
    "404": "Not Found",
    "429": "Too Many Requests",
    "502": "Bad Gateway",
    "503": "Service Unavailable",
}
VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as lines."""


def _represented(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)


_Dumper.add_representer(str, _represented)


def main() -> None:
    pythons = dict(each.split("=", 1) for each in sys.argv[1:] if "=" in each)
    names = [each for each in sys.argv[1:] if "=" not in each]
    ways = yaml.safe_load((HERE / "ways.yaml").read_bytes())
    runs = [
        (way, where)
        for way in ways
        if not names or way["name"] in names
        for where in way.get("in", ["new"])
        if where in pythons
    ]
    kept = {(log["name"], log["in"]): log for log in _recorded()}
    with ThreadPoolExecutor(3) as pool:
        for log in pool.map(lambda run: record(run[0], run[1], pythons[run[1]]), runs):
            print(log["name"], log["in"], log["exitCode"], flush=True)
            kept[log["name"], log["in"]] = log
    logs = [
        {
            **kept[way["name"], where],
            **{label: way[label] for label in ("cause", "transient") if label in way},
        }
        for way in ways
        for where in way.get("in", ["new"])
        if (way["name"], where) in kept
    ]
    text = yaml.dump(logs, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    (HERE / "logs.yaml").write_text(f"# Written by tools/record_failures.py.\n\n{text}")


def _recorded() -> list[dict[str, Any]]:
    file = HERE / "logs.yaml"
    return list(yaml.safe_load(file.read_bytes())) if file.exists() else []


def record(way: Mapping[str, Any], where: str, python: str) -> dict[str, Any]:
    """Return how a program ended, in which versions, and what it printed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o777)
        programs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        programs.chmod(0o755)
        (programs / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        (programs / "python").chmod(0o755)
        if "python" in way:
            (folder / "train.py").write_text(f"{way['python']}\n")
        if way.get("disk"):
            stack.enter_context(_small_disk(folder / "disk"))
        port = stack.enter_context(_server(way["server"])) if "server" in way else 0
        variables = {
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin",
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }
        ended = _ended(way, folder, port, {**variables, **way.get("variables", {})})
        code = ended.returncode
        log = ended.stdout.decode("utf-8", "replace").replace(str(folder), "/job")
        return {
            "name": way["name"],
            "in": where,
            "versions": {package: _version(package, python) for package in way["of"]},
            "exitCode": 128 - code if code < 0 else code,
            "signal": -code if code < 0 else None,
            "log": "\n".join(_shortened(log.replace(str(programs), "/usr/bin").split("\n"))),
        }


def _ended(
    way: Mapping[str, Any], folder: Path, port: int, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Return the end of a program that is not stopped by what it itself leaves behind."""
    commands = way.get("commands", "exec python train.py $1")
    user: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if "user" in way else {}
    process = subprocess.Popen(
        ["bash", "-c", commands, "command", str(port)],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **user,
    )
    timer = threading.Timer(SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        output, _ = process.communicate()
    finally:
        timer.cancel()
    return subprocess.CompletedProcess(commands, process.returncode, output)


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    cut = len(lines) > FIRST_LINES + LAST_LINES
    for line in [*lines[:FIRST_LINES], *lines[-LAST_LINES:]] if cut else lines:
        yield line[:COLUMNS].rstrip()


def _version(package: str, python: str) -> str:
    """Return the version of a package of Python, or else of a program."""
    found = subprocess.run([python, "-c", VERSION, package], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return found.stdout.strip()
    program = python if package == "python" else shutil.which(package)
    if program is None or package in ("coreutils", "dash"):
        asked = ["dpkg-query", "-W", "-f", "${Version}", package]
    else:
        asked = [program, "-V" if package == "ssh" else "--version"]
    said = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return next(filter(str.strip, said.stdout.splitlines()), "")[:40]


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=777", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def _server(kind: str) -> Iterator[int]:
    """Answer at a port of this machine, as a server that refuses, cuts or fails would."""
    listener = socket.create_server(("127.0.0.1", 0))
    if kind == "tls":
        listener = _with_own_certificate(listener)
    thread = threading.Thread(target=_serve, args=(listener, kind), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def _with_own_certificate(listener: socket.socket) -> socket.socket:
    with tempfile.TemporaryDirectory() as name:
        key, certificate = f"{name}/key", f"{name}/certificate"
        made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        command = ["openssl", "req", *made, "-keyout", key, "-out", certificate]
        subprocess.run(command, capture_output=True, check=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    return context.wrap_socket(listener, server_side=True)


def _serve(listener: socket.socket, kind: str) -> None:
    silent = []
    while True:
        try:
            client, _ = listener.accept()
        except ssl.SSLError:
            continue
        except OSError:
            return
        with client:
            if kind == "silent":
                silent.append(client.dup())
                continue
            with suppress(OSError):
                client.recv(65536)
                if kind == "reset":
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif kind != "close":
                    client.sendall(_answer(kind))


def _answer(kind: str) -> bytes:
    if kind in STATUS:
        return f"HTTP/1.1 {kind} {STATUS[kind]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    body = {"html": b"<html>", "large": bytes(9_000_000), "cut": b"x" * 1000}.get(kind, b"")
    length = 1_000_000 if kind == "cut" else len(body)
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode() + body


if __name__ == "__main__":
    main()
