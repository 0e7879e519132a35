"""Runs ``pai-runtime init`` in this process, and prints how long each of its parts took."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import pai_runtime.cli
from pai_pod import init

_marks: dict[str, list[float]] = {}


def main(began: str) -> None:
    """Print it by part, clock and CPU time; `began` is when this process was started."""
    output = os.dup(1)  # which init gives up: what plugins print goes to its log
    _mark_after("read_init_plugins", lambda *_: "start")
    _mark_after("run_init_plugin", lambda plugin, *_: str(plugin.name))
    _mark_after("hand_over_task", lambda *_: "handover")
    sys.argv[1:] = ["init"]
    code = pai_runtime.cli.main()
    _mark("end")
    before, cpu, parts = float(began), 0.0, {}
    for name, (clock, used) in _marks.items():
        parts[name] = clock - before, used - cpu
        before, cpu = clock, used
    copying = resource.getrusage(resource.RUSAGE_CHILDREN)
    parts["copy"] = 0.0, copying.ru_utime + copying.ru_stime
    os.write(output, json.dumps(parts).encode())
    sys.exit(code)


def _mark(name: str) -> None:
    _marks[name] = [time.perf_counter(), time.process_time()]


def _mark_after(function: str, name: Callable[..., str]) -> None:
    original = getattr(init, function)

    def call(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        _mark(name(*args))
        return result

    setattr(init, function, call)
