"""The example in which all built-in plugins take part: three tasks, as `./dev demo` runs them."""

import json
from pathlib import Path

import pytest
import yaml

from pai_runtime.host.discovery import InstalledPlugins
from tests.all_plugins import EXAMPLE, repository
from tests.support import cli

pytestmark = pytest.mark.process


@pytest.mark.needs("openssh-server", "openssh-client")
def test_all_built_in_plugins_take_part_in_one_job(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(EXAMPLE.read_text("utf-8").replace("/path/to/model", str(repository(tmp_path))))
    (tmp_path / "results").mkdir()
    ended = cli("run", job, "--storage", f"results={tmp_path / 'results'}", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    line = "2 workers together: distance = 4.09 * speed -16.44\n"
    assert f"worker/0 | {line}" in ended.stdout, "code from git, data over ssh"
    assert (tmp_path / "results" / "line.txt").read_text().startswith(line), "the storage"
    assert "worker/0 | TensorBoard shows fit" in ended.stdout
    assert "worker/2 failed, exit code 70, Diverged: The rate is too high" in ended.stderr
    record = yaml.safe_load((tmp_path / "run" / "worker" / "2" / "exit.yaml").read_text())
    assert record["matchedUserLogString"] == "the fit diverges in round 6"
    for task in ("worker/0", "worker/1", "worker/2"):
        folder = tmp_path / "run" / task
        used = {use["plugin"] for use in json.loads((folder / "plan.json").read_text())["uses"]}
        assert used == {name for name in InstalledPlugins() if name.rpartition(".")[2] in _ALL}
        log = (folder / "logs" / "runtime.log").read_text()
        for said in ("cloned ", "results is at /mnt/results", "all 3 tasks answer", "the task ended as"):
            assert said in log, f"{said!r} of {task}"


_ALL = {"cmd", "git", "pvc_storage", "tensorboard", "ssh", "failure_analysis", "hang"}
