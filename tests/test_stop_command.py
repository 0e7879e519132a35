"""``pai-runtime stop`` cancels a run of this machine from another terminal."""

import json
import subprocess
from pathlib import Path

import yaml

from tests.support import PROGRAM, callback, cli, job, write_job


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


def test_a_run_that_is_over_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert cli("run", write_job(tmp_path, job()), "--out", folder).returncode == 0
    before = (folder / "run.json").read_text()
    assert cli("stop", folder).returncode == 0
    assert (folder / "run.json").read_text() == before


def test_what_is_no_run_is_not_stopped(tmp_path: Path) -> None:
    assert cli("stop", tmp_path).returncode == 2
    assert cli("stop", tmp_path / "nowhere").returncode == 2
