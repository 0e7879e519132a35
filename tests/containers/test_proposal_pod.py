"""The pod of the proposal for the runtime's interface: it works as it is written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.containers.pod import Pod

pytestmark = pytest.mark.process

_EXIT_SPEC = "- containerExitCode: 44\n  patterns: [{userLogRegex: a known line}]\n"


@pytest.mark.parametrize("name", ["busybox", pytest.param("bullseye", marks=pytest.mark.needs("mmdebstrap"))])
@pytest.mark.timeout(900)
def test_the_pod_of_the_proposal_runs_its_commands(
    tmp_path: Path, bundle: Path, image: Callable[[str], Path], name: str
) -> None:
    secrets = {"secrets.yaml": "token: s3cret-of-the-job\n"}
    contents = {"job-secrets": secrets, "job-exit-spec": {"runtime-exit-spec.yaml": _EXIT_SPEC}}
    pod = Pod(tmp_path, bundle, "proposal", contents)
    prepared = pod.init()
    assert prepared.code == 0, prepared
    ended = pod.run_task(image(name), work="/usr")
    assert (ended.code, ended.stderr) == (0, ""), pod.runtime_log
    lines = ended.stdout.splitlines()
    assert lines[-1] == "hi"
    assert any(line.endswith(" local") for line in lines), "ls -al in the image's working directory"
    assert pod.record["exitCode"] == 0
    assert any("confignfs at /mnt/confignfs: nothing is mounted there" in line for line in pod.runtime_log)
    assert "[INFO] service 'ssh' is ready" in pod.runtime_log
    assert (pod.logs / "user-all/current").read_text() == ended.stdout
