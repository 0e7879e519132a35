"""Files of a task's container, as a program of the bundle archives them there.

The archive is written by what the task can change. Of its format, that is understood which this program
writes, and read in bounded pieces.
"""

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.fields import shown
from pai_kubernetes.api.pod_exec import STDOUT, PodExec
from pai_kubernetes.labels import APP
from pai_network.fields import json_object
from pai_pod.engine import paths
from pai_runtime.engine import CannotCopy, ClusterError, TaskFile
from pai_runtime.engine.records import progress_of

_SCRIPT: Final = 'PATH=$0; place=$(realpath "$1") && cd "$(dirname "$place")" && tar -cf - "./${place##*/}"'
_BLOCK: Final = tarfile.BLOCKSIZE
_LONGEST_NAME: Final = 1 << 16
_MOST_STATE: Final = 1 << 18
_MOST_SAID: Final = 1 << 12
_MOST_ERRORS: Final = 1 << 20
_OF_NEXT: Final = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_FILES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)


def container_files(api: Api, pod: str, path: str) -> Iterator[TaskFile]:
    """Yield the file or directory at a path of a task's container. Raises `CannotCopy` or `ClusterError`."""
    if not path.strip("/"):
        raise CannotCopy("expected a file or directory in the file system of the container, not all of it")
    place = path if path.startswith("/") else f"./{path}"
    argv = [f"{paths.TOOLS}/sh", "-c", _SCRIPT, paths.TOOLS, place]
    try:
        with closing(PodExec(api, pod, APP, argv, stdin=False)) as program:
            output = _Output(program)
            yield from _members(output)
            output.end()
    except ClusterError as error:
        raise CannotCopy(str(error)) from None


def container_services(api: Api, pod: str) -> Mapping[str, str]:
    """Return the addresses of a task's services, which its supervisor writes down. Raises `ClusterError`."""
    argv = [f"{paths.TOOLS}/head", "-c", str(_MOST_STATE), f"{paths.TASK_FOLDER}/state.json"]
    with closing(PodExec(api, pod, APP, argv, stdin=False)) as program:
        output, text = _Output(program), b""
        while len(text) < _MOST_STATE and (data := output.read(_MOST_STATE)):
            text += data
    state = json_object(text)
    progress = progress_of(state) if state is not None else None
    return progress.addresses if progress is not None else {}


class _Output:
    """The standard output of a program, and what it says beside it."""

    def __init__(self, program: PodExec) -> None:
        self._program = program
        self._buffer = b""
        self._said = b""
        self._errors = 0

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`; empty at the end."""
        if not self._buffer:
            self._buffer = self._next()
        data, self._buffer = self._buffer[:most], self._buffer[most:]
        return data

    def exactly(self, count: int) -> bytes:
        """Return so many bytes. Raises `CannotCopy` if fewer come."""
        data = b""
        while len(data) < count:
            piece = self.read(count - len(data))
            if not piece:
                raise self._failure()
            data += piece
        return data

    def skip(self, count: int) -> None:
        """Pass over so many bytes. Raises `CannotCopy` if fewer come."""
        while count > 0:
            piece = self.read(min(count, 1 << 16))
            if not piece:
                raise self._failure()
            count -= len(piece)

    def end(self) -> None:
        """Wait for the end of the program, which may write little more. Raises `CannotCopy` if it failed."""
        left = tarfile.RECORDSIZE
        while piece := self.read(left + 1):
            left -= len(piece)
            if left < 0:
                raise CannotCopy("more than an archive came from the task")
        if self._program.status:
            raise self._failure()

    def _next(self) -> bytes:
        while received := self._program.receive():
            channel, data = received
            if channel == STDOUT:
                return data
            self._said = (self._said + data)[:_MOST_SAID]
            self._errors += len(data)
            if self._errors > _MOST_ERRORS:
                raise self._failure()
        return b""

    def _failure(self) -> CannotCopy:
        said = self._said.decode("utf-8", "replace").strip()
        return CannotCopy(shown(said) or "what came from the task is no archive, or ended early")


def _members(output: _Output) -> Iterator[TaskFile]:
    top: str | None = None
    name, names = "", 0
    while any(block := output.exactly(_BLOCK)):
        header = _header(block)
        if header.type in _OF_NEXT:  # the name of the next file, or of what it links to
            names += 1
            if names > len(_OF_NEXT):
                raise _no_archive()
            long_name = _long_name(output, header.size)
            name = long_name if header.type == tarfile.GNUTYPE_LONGNAME else name
            continue
        first, *path = (name or header.name).removeprefix("./").rstrip("/").split("/")
        if top is None:
            top = first
        if first != top:
            raise _no_archive()
        name, names = "", 0
        data = _Data(output, header.size)
        if header.type in _FILES:
            yield TaskFile(path, "file", header.size, bool(header.mode & 0o100), data.read)
        else:
            yield TaskFile(path, "folder" if header.type == tarfile.DIRTYPE else "other")
        output.skip(data.left + -header.size % _BLOCK)


class _Data:
    """The content of one file of an archive."""

    def __init__(self, output: _Output, size: int) -> None:
        self._output = output
        self.left = size

    def read(self, most: int) -> bytes:
        data = self._output.read(min(most, self.left))
        self.left -= len(data)
        return data


def _no_archive() -> CannotCopy:
    return CannotCopy("what came from the task is no archive of it")


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        raise _no_archive() from None
    if header.size < 0:
        raise _no_archive()
    return header


def _long_name(output: _Output, size: int) -> str:
    if size > _LONGEST_NAME:
        raise CannotCopy("the task names a file by more characters than a path can have")
    name = output.exactly(size)
    output.skip(-size % _BLOCK)
    return name.rstrip(b"\0").decode("utf-8", "surrogateescape")
