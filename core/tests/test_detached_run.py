"""A detached run on this machine outlives who has started it."""

import json
import os
import pty
from functools import partial
from pathlib import Path

import pytest

from tests.support import PROGRAM, cli, job, until, write_job

pytestmark = pytest.mark.process

WAIT = "until test -e go; do sleep 0.05; done; echo gone"


def state(run: Path) -> str:
    tasks = json.loads(cli("ps", run, "--json").stdout)["tasks"]
    return str(tasks[0]["state"]) if tasks else ""


def is_running(run: Path) -> bool:
    return state(run) == "running"


def test_a_detached_run_is_its_name_alone_and_goes_on_until_it_ends_or_is_stopped(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": [WAIT]}))
    for name in ("ended", "stopped"):
        # That its output ends says that nothing of the run holds it.
        started = cli("run", path, "--detach", "--isolation", "none", "--out", tmp_path / name)
        assert (started.returncode, started.stdout) == (0, f"{tmp_path / name}\n"), started.stderr
        until(partial(is_running, tmp_path / name))
    (tmp_path / "ended/worker/0/work/go").touch()
    assert cli("logs", tmp_path / "ended", "-f").stdout == "gone\n"
    until(lambda: state(tmp_path / "ended") == "succeeded")
    assert cli("stop", tmp_path / "stopped").returncode == 0
    until(lambda: state(tmp_path / "stopped") == "stopped")


def test_a_detached_run_survives_the_terminal_that_it_was_started_at(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": [WAIT]}))
    child, terminal = pty.fork()
    if not child:
        argv = [PROGRAM, "run", path, "--detach", "--isolation", "none", "--out", tmp_path / "run"]
        os.execv(PROGRAM, list(map(str, argv)))  # noqa: S606 - no shell is wanted
    seen = b""
    while b"/run\r\n" not in seen:
        seen += os.read(terminal, 1000)
    os.close(terminal)  # which hangs up
    os.waitpid(child, 0)
    until(partial(is_running, tmp_path / "run"))
    (tmp_path / "run/worker/0/work/go").touch()
    until(lambda: state(tmp_path / "run") == "succeeded")


def test_what_cannot_be_started_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"dockerImage": "none"}))
    attached, detached = (cli("run", path, *more, "--out", tmp_path / "run") for more in ((), ("--detach",)))
    assert (detached.returncode, detached.stderr, detached.stdout) == (
        attached.returncode,
        attached.stderr,
        "",
    )
    assert detached.returncode != 0
    assert not (tmp_path / "run").exists()
