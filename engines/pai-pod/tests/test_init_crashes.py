"""Init that is killed at any moment can be repeated over what it has left."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.init_harness import CMD, PodFolder, config
from tests.plugin_factory import Site

pytestmark = pytest.mark.process

_KILLED = """
import os, signal, sys
import pai_runtime.cli, pai_pod.commands.init

def init(calls):
    '''Run init, which is killed before one of the calls that change anything; its exit code.'''
    fork = os.fork
    alive, of_init = os.pipe()
    if pid := fork():
        os.close(of_init)
        os.read(alive, 1)  # until nothing that it has started is at work any more
        os.close(alive)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(null, fd)

    def killed_before(function):
        def call(*args, **options):
            nonlocal calls
            calls -= 1
            if not calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)
        return call

    for name in ("rename", "mkdir", "unlink", "rmdir", "chmod", "fork", "ftruncate", "symlink", "sendfile"):
        setattr(os, name, killed_before(getattr(os, name)))
    sys.argv[1:] = ["init"]
    os._exit(pai_runtime.cli.main())

number = 1
while code := init(number):
    print(code, flush=True)
    sys.stdin.readline()
    number += 6  # each takes a fifth of a second
"""
"""Runs init again and again, some calls later each time, until it comes to its end; waits after each."""

_PLUGIN = """
@hookimpl
def pai_init(use, task):
    (task.private / "key").write_text("secret")
"""


def _contents(pod: PodFolder) -> dict[str, str]:
    """What is left for the task, without what is of this execution alone."""
    folder = pod.volume / "runtime.d"
    files = [path for path in pod.volume.rglob("*") if path.is_file() and "logs" not in path.parts]
    own = {folder / name for name in ("events.jsonl", "state.json", "variables.json")}
    return {str(path.relative_to(pod.volume)): path.read_text() for path in files if path not in own}


def test_init_that_is_killed_is_repeated_with_the_same_result(tmp_path: Path, site: Site) -> None:
    site.add("org.keys", _PLUGIN, hooks=["pai_init"])
    uses: list[Mapping[str, Any]] = [CMD, {"plugin": "org.keys"}]
    pod = PodFolder(tmp_path, **site.environment(), RUNTIME_CONFIG=config("true", uses=uses), POD_NAME="one")
    assert pod.init().returncode == 0
    undisturbed = _contents(pod)
    assert undisturbed["runtime.d/private/key"] == "secret"
    killed = subprocess.Popen(
        [sys.executable, "-c", _KILLED],
        env={**os.environ, **pod.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert killed.stdin is not None
    assert killed.stdout is not None
    codes = []
    for line in killed.stdout:
        codes.append(int(line))
        plan = pod.volume / "runtime.d" / "plan.json"
        assert not plan.exists() or json.loads(plan.read_text())
        killed.stdin.write("\n")
        killed.stdin.flush()
    killed.communicate()
    assert (killed.returncode, len(codes) > 10, codes[0]) == (0, True, -9)
    assert set(codes) <= {-9, 1}  # 1: what was killed was the supervisor of the init steps
    assert _contents(pod) == undisturbed
    assert len(list(pod.logs.glob("prelog_*"))) >= codes.count(-9) - 3
