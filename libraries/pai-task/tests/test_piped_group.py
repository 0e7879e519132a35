"""The process that starts the supervisors of many tasks, driven by its pipes as an engine does."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pai_task.interpreter import python_argv
from pai_task.supervisor.piped_secrets import write_secrets
from tests.support import content, until
from tests.task_harness import plan

_GROUP = "pai_task.supervisor.piped_group"


@contextlib.contextmanager
def _group(most: int) -> Iterator["subprocess.Popen[bytes]"]:
    argv = python_argv(_GROUP, str(most), "1", "{}")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as group:
        assert group.stdin is not None
        write_secrets(group.stdin.fileno(), b"{}")
        yield group
        group.stdin.close()
    assert group.returncode == 0


@pytest.mark.process
def test_a_killed_task_has_ended_once_none_of_its_processes_is_left(tmp_path: Path) -> None:
    depth = 'for n in 1 2 3 4 5 6; do set -- sh -c \'"$@" & wait\' sh "$@"; done'
    command = f"set -- sh -c 'echo $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/deep; exec sleep 1000'"
    (tmp_path / "work").mkdir()
    (tmp_path / "plan.json").write_text(
        json.dumps(plan(tmp_path, f'{command}; {depth}; setsid "$@"').to_json())
    )
    with _group(1) as group:
        assert group.stdin is not None
        assert group.stdout is not None
        group.stdin.write(json.dumps(["start", -1, str(tmp_path), "{}"]).encode() + b"\n")
        deep = int(until(lambda: content(tmp_path / "deep")))
        group.stdin.write(b'["kill", -1]\n')
        assert group.stdout.readline() == b"-1 %d\n" % signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            os.kill(deep, 0)


@pytest.mark.parametrize(("size", "capacity"), [(100, 4096), (100_000, 131_072)])
def test_a_pipe_for_secrets_is_made_larger_only_if_it_must_be(size: int, capacity: int) -> None:
    read, write = os.pipe()
    try:
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        write_secrets(write, b"x" * size)
        assert fcntl.fcntl(write, fcntl.F_GETPIPE_SZ) == capacity
    finally:
        os.close(read)
        os.close(write)
