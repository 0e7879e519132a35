"""``pai-runtime stop`` cancels a run of this machine from another terminal."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from pai_runtime.runs.run_lock import is_unlocked, lock, lock_holder
from pai_task.folder import Folder
from tests.support import PROGRAM, callback, cli, job, write_job

pytestmark = pytest.mark.process


def test_a_run_is_cancelled_as_by_ctrl_c(tmp_path: Path) -> None:
    tidy = {"name": "tidy", "callbacks": [callback("taskExits", "touch tidied")]}
    worker = {"prerequisites": ["tidy"], "commands": ["echo up", "exec sleep 1000"]}
    path = write_job(tmp_path, job(prerequisites=[tidy], worker=worker))
    folder = tmp_path / "run"
    with subprocess.Popen(
        [PROGRAM, "run", path, "--plain", "--out", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as engine:
        assert engine.stdout
        assert engine.stdout.readline() == b"up\n"
        stopped = cli("stop", folder)
        engine.communicate()
    assert (stopped.returncode, engine.returncode) == (0, 130)
    assert json.loads((folder / "run.json").read_text())["outcome"] == "cancelled"
    task = folder / "worker/0"
    assert yaml.safe_load((task / "exit.yaml").read_text())["outcome"] == "cancelled"
    assert (task / "work/tidied").exists()


def test_a_run_that_is_cancelled_saves_its_work_first_and_says_so(tmp_path: Path) -> None:
    saving = {"time": "60s", "commands": ["echo <% $secrets.key %> > ../saved"]}
    document = job(worker={"commands": ["echo up", "exec sleep 1000"]}, secrets={"key": "checkpoint-7"})
    path = write_job(tmp_path, {**document, "extras": {"onPreemption": saving}})
    folder = tmp_path / "run"
    with subprocess.Popen(
        [PROGRAM, "run", path, "--plain", "--out", folder], stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdout
        assert engine.stdout.readline() == b"up\n"
        assert cli("stop", folder).returncode == 0
        engine.communicate()
    task = folder / "worker/0"
    assert yaml.safe_load((task / "exit.yaml").read_text())["preemption"]["completed"] is True
    assert (task / "saved").read_text() == "checkpoint-7\n"
    assert "checkpoint-7" not in (task / "plan.json").read_text()


def test_several_runs_are_stopped_and_one_that_is_none_stops_no_other_from_being(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["echo up", "exec sleep 1000"]}))
    folders = [tmp_path / name for name in ("one", "two")]
    engines = [
        subprocess.Popen([PROGRAM, "run", path, "--plain", "--out", each], stdout=subprocess.PIPE)
        for each in folders
    ]
    for engine in engines:
        assert engine.stdout
        assert engine.stdout.readline() == b"up\n"
    assert cli("stop", folders[0], tmp_path / "nowhere", folders[1]).returncode == 2
    for engine in engines:
        engine.communicate()
        assert engine.returncode == 130


def test_a_run_that_is_over_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert cli("run", write_job(tmp_path, job()), "--out", folder).returncode == 0
    before = (folder / "run.json").read_text()
    assert cli("stop", folder).returncode == 0
    assert (folder / "run.json").read_text() == before


def test_a_process_that_has_not_the_lock_open_is_not_its_holder(tmp_path: Path) -> None:
    """As one that got the number of the process that had locked it, and has left it to a child."""
    with Folder.at(tmp_path) as folder:
        fd = lock(folder)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[fd]) as child:
        assert lock_holder(tmp_path) == os.getpid()
        os.close(fd)
        assert not is_unlocked(tmp_path)
        assert lock_holder(tmp_path) is None
        child.communicate()


def test_what_is_no_run_is_not_stopped(tmp_path: Path) -> None:
    assert cli("stop", tmp_path).returncode == 2
    assert cli("stop", tmp_path / "nowhere").returncode == 2
