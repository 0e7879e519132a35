"""File access for plugins: the logs of a task, and YAML files with positions."""

from __future__ import annotations

import os

from pai_runtime.plugin.errors import UserError
from pai_task.layout import LOGS, RUNTIME_LOG, USER_LOG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from pai_document.value import Value
    from pai_runtime.plugin.arguments import Failure, Task


def read_logs(task: Task, failure: Failure, most: int) -> tuple[bytes, bytes]:
    """Return the last `most` bytes of the user's log and of ``runtime.log``, each across its rotated files.

    The task can write to these files: links and FIFOs in the place of a log are neither followed nor waited
    for. Where the files are incomplete because the disk was full, the tails in `failure` complete them.
    """
    user_tail, runtime_tail = (tail.encode()[-most:] for tail in failure.tails)
    logs = failure.logs or f"{task.folder}/{LOGS}"
    return (
        _end_of_log(logs, USER_LOG.removeprefix(LOGS), most, user_tail),
        _end_of_log(logs, RUNTIME_LOG.removeprefix(LOGS), most, runtime_tail),
    )


def _end_of_log(folder: str, name: str, most: int, tail: bytes) -> bytes:
    text, number = _end_of_file(folder, name, most), 0
    while earlier := _end_of_file(folder, f"{name}.{(number := number + 1)}", most - len(text)):
        text = earlier + text
    for each in _earlier(folder, name):
        text = _end_of_file(folder, each, most - len(text)) + text
    return text if tail in text else text + b"\n" + tail


def _earlier(folder: str, name: str) -> list[str]:
    """List the rotated files of a log that are named as multilog names them, newest first."""
    from pai_task.folder import Folder  # noqa: PLC0415 - as above
    from pai_task.log_file import earlier_names  # noqa: PLC0415 - not for every hook

    above, slash, _ = name.rpartition("/")
    try:
        with Folder.at(folder) as logs, logs.folder(above) as own:
            return [f"{above}{slash}{each}" for each in earlier_names(own.names())]
    except OSError:
        return []


def _end_of_file(folder: str, name: str, most: int) -> bytes:
    from pai_task.folder import Folder  # noqa: PLC0415 - not for every hook

    try:
        with Folder.at(folder) as own, os.fdopen(own.open(name), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            return file.read(most)
    except OSError:
        return b""


class YamlFile:
    """A parsed YAML file, read as a job file is: in bounded time and memory, by YAML 1.2's core schema."""

    def __init__(self, root: Value) -> None:
        self._root = root

    @property
    def data(self) -> Any:
        """The content as plain data: dict, list, str, int, float, bool or None."""
        return self._root.data

    def position(self, path: Sequence[str | int] = ()) -> str:
        """Return ``file:line:column`` of the value at `path` (keys and indexes), or of its nearest parent."""
        return str(self._root.at(tuple(path)).position)


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file. Raises `UserError` that names the fault and its position if it cannot be read."""
    from pai_document.document import read_document  # noqa: PLC0415 - YAML is slow to import
    from pai_document.problems import InvalidInput  # noqa: PLC0415

    try:
        return YamlFile(read_document(path))
    except InvalidInput as error:
        faults = [f"{problem.position or path}: {problem.message}" for problem in error.problems]
        raise UserError("; ".join(faults)) from None
