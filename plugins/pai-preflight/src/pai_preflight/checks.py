"""The checks of a node, each bounded in time: what is wrong, by its name."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from pai_preflight.computing import faults_of_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS = 30
"""Timeout in seconds of one answer: of a GPU's driver, or of a storage."""
_MOST_BYTES = 1 << 20
_DISK_MB, _SHM_MB = 1024, 64
_NVIDIA = (
    "nvidia-smi",
    "--query-gpu=index,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader,nounits",
)
_AMD = ("rocm-smi", "--showid", "--json")

Fault = tuple[str, str]


def faults(given: Mapping[str, Any], requested: int) -> list[Fault]:
    """Return what is wrong with the node, for the plugin's parameters and the GPUs that the role requests."""
    return [
        *_space("PreflightDisk", ".", given.get("diskMB", _DISK_MB)),
        *_space("PreflightSharedMemory", "/dev/shm", given.get("shmMB", _SHM_MB)),  # noqa: S108 - no file is made
        *_gpus(given.get("gpus"), requested),
        *(fault for folder in given.get("writable", ()) for fault in _storage(folder)),
    ]


def _space(name: str, folder: str, least: int) -> list[Fault]:
    if least == 0:
        return []
    try:
        free = shutil.disk_usage(folder).free >> 20
    except OSError as error:
        return [(name, f"{folder}: {error.strerror}")]
    return [] if free >= least else [(name, f"{folder} has {free} MiB free, expected {least}")]


def _gpus(wanted: int | None, requested: int) -> list[Fault]:
    least = requested if wanted is None else wanted
    program = next((each for each in (_NVIDIA, _AMD) if shutil.which(each[0])), None)
    if least == 0 or (program is None and wanted is None):
        return []
    if program is None:
        return [("PreflightGpu", f"expected {least} GPUs; found neither nvidia-smi nor rocm-smi")]
    try:
        answer = subprocess.run(
            program, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return [("PreflightGpu", f"{program[0]} did not answer in {_SECONDS} s")]
    except OSError as error:
        return [("PreflightGpu", f"{program[0]}: {error.strerror}")]
    text = answer.stdout[:_MOST_BYTES].decode("utf-8", "replace")
    if answer.returncode:
        return [
            ("PreflightGpu", f"{program[0]} ended with exit code {answer.returncode}: {_first_line(text)}")
        ]
    count, bad = _nvidia(text) if program is _NVIDIA else (_amd(text), [])
    found = [("PreflightGpuMemory", f"GPU {index}: {errors} uncorrected errors") for index, errors in bad]
    if count < least:
        found.insert(0, ("PreflightGpu", f"{count} GPUs answer, expected {least}"))
    elif program is _NVIDIA:
        found += [("PreflightGpu", fault) for fault in faults_of_gpus(least)]
    return found


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return "".join(each if each.isprintable() else "?" for each in line)[:200]


def _nvidia(text: str) -> tuple[int, list[tuple[str, int]]]:
    """Return the number of GPUs, and those with errors; a count may be ``[N/A]``."""
    rows = [row.split(",") for row in text.splitlines()]
    numbered = [(row[0].strip(), row[-1].strip()) for row in rows if row[0].strip().isdecimal()]
    bad = [(index, int(errors)) for index, errors in numbered if errors.isdecimal() and int(errors)]
    return len(numbered), bad


def _amd(text: str) -> int:
    """Return the number of cards in a JSON object, before which there may be warnings."""
    try:
        cards = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        return 0
    return sum(name.startswith("card") for name in cards)


def _storage(folder: str) -> list[Fault]:
    """Write and read a file, in a thread: a storage that is gone may never answer."""
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(_written(folder)), daemon=True)
    thread.start()
    thread.join(_SECONDS)
    why = found[0] if found else f"no answer in {_SECONDS} s"
    return [("PreflightStorage", f"{folder}: {why}")] if why else []


def _written(folder: str) -> str | None:
    """Return why a file could not be written and read in a directory; None if it could."""
    data = os.urandom(4096)
    path = f"{folder}/.pai-preflight-{data[:8].hex()}"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.unlink(path)  # noqa: PTH108 - as all of it is about descriptors
            os.write(fd, data)
            os.fsync(fd)
            return None if os.pread(fd, len(data), 0) == data else "what was written is not what is read"
        finally:
            os.close(fd)
    except OSError as error:
        return error.strerror or errno.errorcode.get(error.errno or 0, "failed")
