"""``render`` prints what would be submitted, the same each time and without the value of any secret."""

import os
import stat
from pathlib import Path

import pytest
import yaml

from tests.cluster_commands import NO_GPU, Command, cluster, shown
from tests.small_cluster import SmallCluster
from tests.support import job, write_job

pytestmark = pytest.mark.process

__all__ = ["cluster", "shown"]

SECRET = "do-not-tell-anybody"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_job(tmp_path, job(secrets={"key": SECRET}, worker={"instances": 3}))


def test_manifests_are_yaml_in_ascii_and_the_same_each_time(path: Path, shown: Command) -> None:
    status, output, messages = shown("render", path, "--on", "lab")
    assert (status, output) == shown("render", path, "--on", "lab")[:2]
    assert status == 0
    assert output.isascii()
    assert "\x1b" not in output
    jobset, config = yaml.safe_load_all(output)
    assert jobset["metadata"]["name"] == "test-0123abcd"
    assert jobset["spec"]["first"] == jobset["spec"]["second"] == jobset["metadata"]
    assert config["data"] == {"script": "worker\nworker\nworker\n", "odd": "\x1b[31m\u202e"}
    assert "script: |" in output
    assert "&id" not in output
    assert SECRET not in output + messages
    assert "Secret test-0123abcd" in messages
    assert "--secrets-manifest" in messages


def test_the_run_has_the_name_that_is_given_and_nobody_is_asked(
    path: Path, cluster: SmallCluster, shown: Command
) -> None:
    cluster.away = "nobody answers"
    _, output, _ = shown("render", path, "--on", "lab", "--name", "mine", "--role-instances", "worker=1")
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(output)] == ["mine", "mine"]
    assert cluster.checked == [([("worker", 0)], False)]
    assert cluster.submitted == []


def test_secrets_are_written_to_a_file_of_ones_own(path: Path, tmp_path: Path, shown: Command) -> None:
    umask = os.umask(0)
    try:
        status, output, _ = shown("render", path, "--on", "lab", "--secrets-manifest", "secrets.yaml")
    finally:
        os.umask(umask)
    written = tmp_path / "secrets.yaml"
    assert (status, stat.S_IMODE(written.stat().st_mode)) == (0, 0o600)
    assert [each["stringData"] for each in yaml.safe_load_all(written.read_text())] == [{"key": SECRET}]
    assert SECRET not in output


@pytest.mark.parametrize("there", ["a file", "a link"])
def test_no_file_is_written_over(path: Path, tmp_path: Path, shown: Command, there: str) -> None:
    target = tmp_path / "secrets.yaml"
    if there == "a file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "elsewhere")
    status, output, messages = shown("render", path, "--on", "lab", "--secrets-manifest", target)
    assert (status, output) == (2, "")
    assert str(target) in messages
    assert target.is_symlink() or target.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_that_is_not_there_is_said(path: Path, shown: Command) -> None:
    status, output, messages = shown("render", path, "--on", "lab", "--secrets-manifest", "none/secrets.yaml")
    assert (status, output) == (2, "")
    assert "none/secrets.yaml" in messages


def test_what_the_profile_excludes_is_not_rendered(tmp_path: Path, shown: Command) -> None:
    status, output, messages = shown("render", write_job(tmp_path, NO_GPU), "--on", "lab")
    assert (status, output) == (1, "")
    assert "taskRoles.worker.resourcePerInstance.gpu" in messages


def test_without_a_cluster_there_is_nothing_to_render(path: Path, shown: Command) -> None:
    status, output, messages = shown("render", path)
    assert (status, output) == (2, "")
    assert "--on" in messages
