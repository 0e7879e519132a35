"""What a command imports before it does its work: people wait for that each time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.init_harness import PodFolder, config
from tests.played_run import PlayedRun
from tests.support import job, write_job

pytestmark = pytest.mark.process

_LOADED = """
import atexit, sys
from pai_runtime.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""

CLIENT = {"http.client", "pai_network.client", "ssl", "urllib3"}
"""What asks servers."""


def loaded(*args: str | Path, **environment: str) -> set[str]:
    """The modules that are loaded when a command ends."""
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{_LOADED}", *args]
    env = {**os.environ, **environment}
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, env=env)
    return set(ended.stderr.split())


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_a_valid_job_is_checked_without_what_only_explains_mistakes(tmp_path: Path, command: str) -> None:
    modules = loaded(command, write_job(tmp_path, job()))
    assert "pai_runtime.job.load" in modules
    mistakes = "pai_document.mistakes"
    slow = {"dataclasses", "difflib", "jsonschema", mistakes, "pai_runtime.engines.ignoring", "subprocess"}
    assert not (slow | CLIENT | {"ruamel.yaml"}) & modules


def test_an_init_that_asks_no_server_loads_no_client(tmp_path: Path) -> None:
    pod = PodFolder(tmp_path, RUNTIME_CONFIG=config("true"))
    loaded("init", **pod.environment)
    modules = set(pod.log.split())  # in which init has all that is said
    assert "pai_pod.steps.runtime_plugins" in modules
    assert not CLIENT & modules


@pytest.mark.parametrize("command", ["ps", "logs"])
def test_a_run_is_read_without_what_reads_jobs(tmp_path: Path, command: str) -> None:
    PlayedRun(tmp_path, worker=1).end("succeeded")
    modules = loaded(command, tmp_path)
    assert "pai_runtime.runs.state" in modules
    assert not {"jsonschema", "pai_runtime.engines.code", "pai_runtime.job.model", "pluggy", "yaml"} & modules
