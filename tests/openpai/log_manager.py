"""The log-manager of a node: a list of files with a token for 120 seconds, and nginx that serves them."""

import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SECONDS = 120
_TAIL = 16_384
_NAMES = {"user-all": "all", "user-stdout": "stdout", "user-stderr": "stderr"}
_KEYS = ("username", "framework-name", "taskrole", "pod-uid")


class File(NamedTuple):
    """A reply to a request for a file."""

    status: int
    body: bytes
    headers: dict[str, str]


class LogManager:
    """`address` is what the portal's nginx forwards by."""

    address = "/log-manager/127.0.0.1:9103/api/v1/logs"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens: dict[str, float] = {}

    def expire(self) -> None:
        """Let all tokens be older than they may be."""
        for token in list(self.tokens):
            self.tokens[token] = 0

    def locations(self, *of_pod: str, tail: bool) -> list[dict[str, str]]:
        """The files of a pod: of its user, Framework, converted role, and UID."""
        token = secrets.token_urlsafe(16)
        self.tokens[token] = time.time() + SECONDS
        query = "&".join(f"{key}={value}" for key, value in zip(_KEYS, of_pod, strict=True))
        end = f"?{query}&token={token}{'&tail-mode=true' if tail else ''}"
        return [
            {"name": _shown(file), "uri": f"{self.address}/{file}{end}"}
            for file in _files(self.folder.joinpath(*of_pod))
        ]

    def serve(self, file: str, query: Mapping[str, str], asked_range: str) -> File:
        if self.tokens.get(query.get("token", ""), 0) < time.time():
            return File(403, b"", {"Content-Type": "text/plain"})
        parts = [query.get(key, "") for key in _KEYS]
        path = None if ".." in parts else _files(self.folder.joinpath(*parts)).get(file)
        if path is None:
            return File(404, b"", {})
        with path.open("rb") as stream:
            data, known = stream.read(), path.stat()
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept-Ranges": "bytes",
            "ETag": f'"{known.st_mtime_ns:x}-{len(data):x}"',
        }
        part = _part(len(data), asked_range, tail=query.get("tail-mode") == "true")
        if part is None or not data:
            return File(200, data, headers)
        start, end = part
        if start >= end:
            return File(416, b"", {"Accept-Ranges": "bytes", "Content-Range": f"bytes */{len(data)}"})
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        return File(206, data[start:end], headers)


def rotate(log: Path) -> None:
    """Begin a new `current`, as the runtime does at 256 MiB; the one before is kept."""
    for old in log.glob("@*"):
        old.unlink()
    (log / "current").rename(log / f"@{time.time_ns():x}.s")
    (log / "current").touch()


def _part(size: int, asked_range: str, *, tail: bool) -> tuple[int, int] | None:
    """`tail-mode` overrides a Range."""
    if tail:
        return max(0, size - _TAIL), size
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked_range)
    if found is None:
        return None
    return int(found[1]), min(size, int(found[2]) + 1) if found[2] else size


def _files(folder: Path) -> dict[str, Path]:
    files = {each.name: each for each in sorted(folder.glob("*")) if each.is_file()}
    for name in _NAMES:
        if (current := folder / name / "current").exists():
            files[name] = current
        files.update({f"{name}.1": each for each in (folder / name).glob("@*")})
    return files


def _shown(file: str) -> str:
    name, dot, number = file.partition(".")
    return f"{_NAMES[name]}{dot}{number}" if name in _NAMES else file
