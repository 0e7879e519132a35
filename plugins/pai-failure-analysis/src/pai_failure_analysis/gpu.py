"""The faults of the machine's GPUs: ECC errors, Xid messages, lost GPUs."""

import os
import re
import select
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

SECONDS = 5.0
"""Timeout in seconds for ``nvidia-smi``, which may hang for ever with a broken driver."""

MOST_BYTES = 4 * 1024 * 1024
"""Maximum bytes of its output that are read; it writes some 10 KB for each GPU."""

_XID = re.compile(rb"NVRM: Xid \([^()\n]{1,60}\): ([0-9]{1,4})")
_UNCORRECTABLE = re.compile(rb"<[sd]ram_uncorrectable[a-z_]{0,20}>\s{0,20}0*[1-9]")
_TOTAL = re.compile(rb"<total>\s{0,20}0*[1-9]")
_LOST = (b"GPU is lost", b"Unable to determine the device handle", b"GPU has fallen off the bus")


def find_gpu_faults(platform_log: bytes) -> Mapping[str, Any]:
    """Return the GPU faults that ``nvidia-smi`` and a log report, by their names in exit specs."""
    # shutil, which knows how to look for it, takes 7 ms to import.
    programs = (f"{folder}/nvidia-smi" for folder in os.get_exec_path())
    program = next((program for program in programs if os.access(program, os.X_OK)), None)
    said = _run([program, "-q", "-x"]) if program else b""
    xids = sorted({int(number) for text in (said, platform_log) for number in _XID.findall(text)})
    found = {
        "nvidiaDoubleEccError": _has_double_bit_error(said),
        "nvidiaXid": xids,
        "nvidiaGpuLost": any(words in said for words in _LOST),
    }
    return {name: value for name, value in found.items() if value}


def _has_double_bit_error(said: bytes) -> bool:
    """Return whether a GPU has had a double-bit error since the driver was loaded.

    An XML parser is of no use: a faulty driver breaks off anywhere, and mixes its messages with the XML.
    """
    since_loaded = [part.partition(b"</volatile>")[0] for part in said.split(b"<volatile>")[1:]]
    return any(
        _UNCORRECTABLE.search(part) or _TOTAL.search(part.partition(b"<double_bit>")[2])
        for part in since_loaded
    )


def _run(argv: Sequence[str]) -> bytes:
    """Return what a program writes to both streams within the timeout."""
    import subprocess  # noqa: PLC0415 - takes 10 ms, and most machines have no GPU

    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError:
        return b""
    assert process.stdout is not None  # noqa: S101 - for the type checker
    said, poll = bytearray(), select.poll()
    with process.stdout as stream:
        poll.register(stream, select.POLLIN)  # not `select.select`, whose descriptors are below 1024
        end = time.monotonic() + SECONDS
        while len(said) < MOST_BYTES and poll.poll(max(0, end - time.monotonic()) * 1000):
            piece = os.read(stream.fileno(), 65536)
            if not piece:
                break
            said += piece
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # in the kernel, beside a broken driver, nothing can end it
        process.wait(1)
    return bytes(said)
