"""What a program in a running task prints as JSON, for commands that look into tasks wherever these run."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pai_runtime.plugin import UserError
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import RunTask
from pai_task.fast_json import loads_untrusted
from pai_task.interpreter import python_argv

_MOST_BYTES: Final = 8 * 1024 * 1024
_MOST_SAID: Final = 4096
_MOST_SHOWN: Final = 60
_WITHIN: Final = 120.0
_PIECE: Final = 1 << 16


def ask_task(reader: RunReader, task: RunTask, argv: Sequence[str]) -> Any:
    """Run a program in a task as ``pai-runtime exec`` does, without input, and return its JSON document.

    The task may have forged it. Raises `UserError`, which says why there is none.
    """
    on = ("--on", reader.on) if reader.on else ()
    # A process of its own, for to enter a task takes over signals and standard streams.
    entering = python_argv("pai_runtime.cli", "exec", reader.named, task.name, *on, "--", *argv)
    with subprocess.Popen(
        entering,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            printed, said = _read(process)
        except BaseException:
            # With what it has started, such as srun. It is not reaped yet: no other group has its id.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
        why = lines[-1] if lines else f"its program ended with exit code {process.returncode}"
        raise UserError(why.removeprefix("pai-runtime: ").removeprefix(f"{task.name}: "))
    try:
        return loads_untrusted(printed)
    except ValueError:
        found = printed[:_MOST_SHOWN].decode("utf-8", "replace")
        raise UserError(f"expected JSON from the task, found {found!r}") from None


def _read(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return the output, and the end of the errors, of a program that has ended.

    Raises `UserError` if it is too much or takes too long: whoever has its streams open, in the task or
    elsewhere, may never close them. The program is not reaped then.
    """
    until, late = time.monotonic() + _WITHIN, UserError(f"no answer within {_WITHIN:g} s")
    output, errors = (stream.fileno() for stream in (process.stdout, process.stderr) if stream)
    found = {output: bytearray(), errors: bytearray()}
    streams, left = select.poll(), set(found)
    for fd in left:
        streams.register(fd, select.POLLIN)
    while left:
        ready = streams.poll(max(0.0, until - time.monotonic()) * 1000)
        if not ready:
            raise late
        for fd, _ in ready:
            data = os.read(fd, _PIECE)
            found[fd] += data
            if not data:
                streams.unregister(fd)
                left.remove(fd)
        del found[errors][:-_MOST_SAID]
        if len(found[output]) > _MOST_BYTES:
            raise UserError(f"it said more than {_MOST_BYTES >> 20} MiB")
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise late from None
    return bytes(found[output]), bytes(found[errors])
