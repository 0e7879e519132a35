"""What a program in a running task prints as JSON, for commands that look into tasks wherever these run."""

import subprocess
from collections.abc import Sequence
from threading import Timer
from typing import Any, Final

from pai_runtime.plugin import UserError
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import RunTask
from pai_runtime.task.fast_json import loads_untrusted
from pai_runtime.task.interpreter import python_argv

_MOST_BYTES: Final = 8 * 1024 * 1024
_MOST_SAID: Final = 4096
_MOST_SHOWN: Final = 60
_WITHIN: Final = 120.0


def ask_task(reader: RunReader, task: RunTask, argv: Sequence[str]) -> Any:
    """Run a program in a task as ``pai-runtime exec`` does, without input, and return its JSON document.

    The task may have forged it. Raises `UserError`, which says why there is none.
    """
    on = ("--on", reader.on) if reader.on else ()
    # A process of its own, for to enter a task takes over signals and standard streams.
    entering = python_argv("pai_runtime.cli", "exec", reader.named, task.name, *on, "--", *argv)
    with subprocess.Popen(
        entering, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout  # noqa: S101 - for the type checker, as the next
        assert process.stderr  # noqa: S101
        timer = Timer(_WITHIN, process.kill)
        timer.start()
        try:
            printed = process.stdout.read(_MOST_BYTES + 1)  # while it says too much, it waits for the timer
            if len(printed) > _MOST_BYTES:
                process.kill()
            said = process.stderr.read(_MOST_SAID).decode("utf-8", "replace").splitlines()
            process.wait()
        finally:
            timer.cancel()
            process.kill()
    if process.returncode or len(printed) > _MOST_BYTES:
        too_much = f"it said more than {_MOST_BYTES >> 20} MiB, or nothing for {_WITHIN:g} s"
        why = next((line for line in reversed(said) if line.strip()), too_much)
        raise UserError(why.removeprefix("pai-runtime: ").removeprefix(f"{task.name}: "))
    try:
        return loads_untrusted(printed)
    except ValueError:
        found = printed[:_MOST_SHOWN].decode("utf-8", "replace")
        raise UserError(f"expected JSON from the task, found {found!r}") from None
