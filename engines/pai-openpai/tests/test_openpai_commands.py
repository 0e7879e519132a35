"""The real commands on an OpenPAI cluster, as in docs/openpai-cluster.md."""

from pathlib import Path

import pytest

from tests.openpai.lab import Lab
from tests.small_cluster import write_profiles
from tests.support import cli, job, write_job

pytestmark = pytest.mark.process

ON = ("--on", "lab")
SECRET = "s3cr3t-of-the-job"


@pytest.fixture
def profile(openpai: Lab, tmp_path: Path) -> None:
    text = f"  lab: {{engine: openpai, url: '{openpai.server.url}', runtime: pai-runtime}}\n"
    write_profiles(tmp_path / "config", text)


@pytest.mark.usefixtures("profile")
def test_a_job_is_run_looked_at_and_stopped(openpai: Lab, tmp_path: Path) -> None:
    said = "echo out $PAI_TASK_INDEX; echo '<% $secrets.key %>' | wc -c; exit $((PAI_TASK_INDEX * 7))"
    document = job(name="both", secrets={"key": SECRET}, worker={"instances": 2, "commands": [said]})
    path = write_job(tmp_path, document)
    ran = cli("run", path, *ON)
    assert ran.returncode == 7, ran.stderr
    assert {"worker/0 | out 0", "worker/1 | out 1", "worker/1 | 18"} <= set(ran.stdout.splitlines())
    (name,) = [each.submission.name for each in openpai.server.cluster.jobs.values()]
    listed, logs, removed = cli("ps", *ON), cli("logs", name, "worker/1", *ON), cli("rm", name, *ON)
    assert name in listed.stdout
    assert logs.stdout == "out 1\n18\n"
    assert removed.returncode == 2
    held = write_job(tmp_path, job(name="held", worker={"commands": ["exec tail -f /dev/null"]}))
    detached = cli("run", held, *ON, "--detach").stdout.strip()
    openpai.server.cluster.jobs[f"alice~{detached}"].wait(lambda found: bool(found.attempts))
    entered, stacks = cli("exec", detached, "worker/0", *ON), cli("stacks", detached, *ON)
    stopped = cli("stop", detached, *ON)
    assert (entered.returncode, stacks.returncode, stopped.returncode) == (2, 2, 0), stopped.stderr
    assert "stacks cannot be used on lab" in stacks.stderr
    openpai.server.cluster.jobs[f"alice~{detached}"].wait(lambda found: found.over)
    token = next(iter(openpai.server.cluster.tokens))
    everything = (ran, listed, logs, removed, entered, stacks, stopped)
    texts = "".join(each.stdout + each.stderr for each in everything)
    hidden = [SECRET, token, *openpai.server.cluster.logs.tokens]
    assert not [each for each in hidden if each in texts]
    assert not [
        each for each in hidden if any(each in request.path for request in openpai.asked("GET", "/api/v2"))
    ]
