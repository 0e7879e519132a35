"""The Jupyter job of version 1, as its file is written: it runs here, and answers on its port."""

import json
import os
import subprocess
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml

from tests.job_environment import job_environment
from tests.support import JOBS, PROGRAM, cli

pytestmark = pytest.mark.process


@pytest.mark.needs("notebook")
@pytest.mark.timeout(600)  # the first time, some ninety packages are installed
def test_jupyter_answers_on_the_port_that_the_job_gives_it_and_stops(tmp_path: Path) -> None:
    env = {
        **os.environ,
        "PATH": f"{job_environment('notebook')}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
    }
    folder = tmp_path / "run"
    command: list[str | Path] = [PROGRAM, "run", JOBS / "legacy/jupyter.json", "--plain", "--out", folder]
    (tmp_path / "home").mkdir()
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as engine:
        try:
            version = _answer(engine, folder)
        finally:
            stopped = cli("stop", folder)
            _, said = engine.communicate()
    assert version is not None, said.decode()
    assert (stopped.returncode, engine.returncode) == (0, 130)
    record = yaml.safe_load((folder / "task_1/0/exit.yaml").read_text())
    assert record["outcome"] == "cancelled"


def _answer(engine: subprocess.Popen[bytes], folder: Path) -> object:
    """The version that the server says it has; None if the run ends before."""
    while engine.poll() is None:
        try:
            shared = json.loads((folder / "shared.json").read_text())
            port = shared["peers"]["PAI_PORT_LIST_task_1_0_jupyter"]
            with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/api", timeout=60) as answer:
                return json.load(answer)["version"]
        except (FileNotFoundError, URLError):
            time.sleep(0.1)  # between two looks
    return None
