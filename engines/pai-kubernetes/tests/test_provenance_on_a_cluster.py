"""What produced a run on a cluster is kept with it; what others may have changed there harms nobody."""

import json
from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.api import paths
from pai_kubernetes.labels import MOST_PROVENANCE, PROVENANCE
from pai_kubernetes.run.reader import Reader
from pai_pod.engine import JOB_FILE
from pai_runtime.cli.given_run import NotThere
from pai_runtime.cli.rerun_elsewhere import words_elsewhere
from pai_runtime.runs.provenance import settings
from tests.kubernetes import run_objects
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster, api_of
from tests.support import cli, job, write_job

SECRET = "do-not-tell-anybody"

pytestmark = pytest.mark.usefixtures("lab")


def printing(**fields: Any) -> dict[str, Any]:
    worker = {"commands": ["echo lr is <% $parameters.lr %>"]}
    return job(parameters={"lr": 0.1, "of": "x"}, worker=worker, **fields)


def submitted(path: Path, *options: str) -> str:
    ended = cli("run", path, "--on", "lab", "--detach", *options)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def again(name: str, *options: str) -> tuple[int, str, str]:
    ended = cli("rerun", name, "--on", "lab", "--detach", *options)
    return ended.returncode, ended.stdout.strip(), ended.stderr


def annotation(server: ApiServer, name: str) -> Any:
    jobset = server.get(paths.jobsets(NAMESPACE, name))
    assert jobset is not None
    return json.loads(jobset["metadata"]["annotations"][PROVENANCE])


def job_text(server: ApiServer, name: str) -> str:
    config = server.get(paths.config_maps(NAMESPACE, f"{name}-job"))
    assert config is not None
    return str(config["data"][JOB_FILE])


def digests(image: str) -> dict[str, Any]:
    """A pod's status with the digests of its images."""
    status = run_objects.running()
    for kind, container in (("containerStatuses", "app"), ("initContainerStatuses", "init")):
        for each in status[kind]:
            if each["name"] == container:
                each["imageID"] = f"registry.example/{container}@sha256:{image}"
    return status


@pytest.mark.process
def test_a_run_keeps_what_produced_it_without_secrets(server: ApiServer, tmp_path: Path) -> None:
    path = write_job(tmp_path, printing(secrets={"s": SECRET}))
    name = submitted(path, "--set", "lr=0.2", "--env", "LINK=https://me:word@host/x")
    found = annotation(server, name)
    assert (found["set"], found["arguments"][0]) == ({"lr": "0.2"}, str(path))
    assert {"id", "distribution", "version", "digest"} == found["plugins"][0].keys()
    assert "text" not in found["job"]  # it is in the ConfigMap
    assert not [text for text in (SECRET, "word") if text in json.dumps(found)]
    (listed,) = json.loads(cli("ps", "--on", "lab", "--json").stdout)
    shown = json.loads(cli("ps", name, "--on", "lab", "--json").stdout)
    assert listed["set"] == shown["set"] == {"lr": "0.2"}
    assert "lr=0.2" in cli("ps", "--on", "lab").stdout
    assert SECRET not in str(Reader(api_of(server), name, "lab").provenance())


@pytest.mark.process
def test_too_much_is_not_kept_and_that_is_said(server: ApiServer, tmp_path: Path) -> None:
    path = write_job(tmp_path, printing())
    ended = cli("run", path, "--on", "lab", "--detach", "--set", f"of={'x' * MOST_PROVENANCE}")
    assert (ended.returncode, "is not kept with it" in ended.stderr) == (0, True), ended.stderr
    jobset = server.get(paths.jobsets(NAMESPACE, ended.stdout.strip()))
    assert jobset is not None
    assert PROVENANCE not in jobset["metadata"]["annotations"]
    assert again(ended.stdout.strip())[0] == 2


@pytest.mark.process
def test_a_run_is_repeated_with_changes_even_if_its_job_has_changed(
    server: ApiServer, tmp_path: Path
) -> None:
    name = submitted(write_job(tmp_path, printing()), "--set", "lr=0.2")
    write_job(tmp_path, job(worker={"commands": ["echo other"]}))
    status, second, said = again(name, "--set", "of=y")
    assert (status, "taken from the cluster" in said) == (0, True), said
    assert annotation(server, second)["set"] == {"lr": "0.2", "of": "y"}
    assert annotation(server, second)["directory"] == str(tmp_path)
    assert job_text(server, second) == job_text(server, name)


@pytest.mark.process
def test_what_differed_between_two_runs_is_shown(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_job(tmp_path, printing())
    names = [submitted(path), submitted(path, "--set", "lr=0.2")]
    for number, name in enumerate(names):
        monkeypatch.setattr(run_objects, "NAME", name)
        server.put(paths.pods(NAMESPACE), run_objects.pod(status=digests(f"{number}a")))
    ended = cli("diff", *names, "--on", "lab")
    assert (ended.returncode, "set lr: - → 0.2" in ended.stdout) == (1, True), ended.stderr
    assert "image worker: registry.example/app@sha256:0a → registry.example/app@sha256:1a" in ended.stdout
    assert "image (runtime): registry.example/init@sha256:0a" in ended.stdout
    assert cli("run", path, "--set", "lr=0.3").returncode == 0
    (local,) = Path(".pai-runs").iterdir()
    assert "set lr: 0.3 → 0.2" in cli("diff", local, names[1], "--on", "lab").stdout


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        (["--strict-callbacks", "--set", "lr=1"], ["--strict-callbacks", "--set=lr=1"]),
        (["--env", "A=b"], ["--env=A=b"]),
        (["--on", "other"], []),
        (["--timeout", "1s --code /etc"], ["--timeout=1s --code /etc"]),
        (["--code", "/etc"], None),
        (["--secrets", "/etc/passwd"], None),
        (["--policy", "p.yaml"], None),
        (["--env", "HOME"], None),
        (["--set", "--code=/etc"], None),
        (["--code=/etc", "--set", "lr=1"], None),
        (["/etc/passwd"], None),
    ],
)
def test_nothing_that_names_a_file_of_this_machine_is_taken_from_a_cluster(
    words: list[str], taken: list[str] | None
) -> None:
    words = ["../../elsewhere/--job.yaml", *words]
    if taken is None:
        with pytest.raises(NotThere):
            words_elsewhere(words, "lab", [])
    else:
        here = str(Path.cwd() / "--job.yaml")
        assert words_elsewhere(words, "lab", []) == [here, *taken, "--on=lab"]


@pytest.mark.process
def test_what_is_not_taken_from_a_cluster_can_be_given_again(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    name = submitted(write_job(tmp_path, printing()), "--code", "code")
    assert again(name)[0] == 2
    status, second, said = again(name, "--code", "code")
    assert status == 0, said
    assert server.get(paths.config_maps(NAMESPACE, f"{second}-code-0")) is not None


@pytest.mark.process
@pytest.mark.parametrize("field", [{"extras": {"code": ".."}}, {"secrets": {"s": SECRET}}])
def test_a_job_that_others_may_have_changed_gets_neither_files_nor_secrets(
    server: ApiServer, tmp_path: Path, field: dict[str, Any]
) -> None:
    path = write_job(tmp_path, printing())
    name = submitted(path)
    config = paths.config_maps(NAMESPACE, f"{name}-job")
    server.change(config, {"data": {JOB_FILE: json.dumps(printing(**field))}})
    assert again(name)[0] == 2
    (tmp_path / "secrets.yaml").write_text(json.dumps({"s": SECRET}))
    if "secrets" in field:
        assert again(name, "--secrets", "secrets.yaml")[0] == 2
    assert len(server.list(paths.jobsets(NAMESPACE))) == 1


@pytest.mark.process
def test_secrets_are_given_to_ones_own_file_if_it_is_the_job_that_was_run(
    server: ApiServer, tmp_path: Path
) -> None:
    name = submitted(write_job(tmp_path, printing(secrets={"s": SECRET})))
    assert again(name)[0] == 0
    write_job(tmp_path, printing(secrets={"s": SECRET}, jobRetryCount=1))
    assert again(name)[0] == 2
    assert len(server.list(paths.jobsets(NAMESPACE))) == 2


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "[" * 50_000, f'"{"x" * MOST_PROVENANCE}"', '{"set": [], "instances": 1, "job": "x"}'],
)
def test_what_is_not_as_expected_counts_as_missing(server: ApiServer, text: str) -> None:
    PlayedCluster(server, annotations={PROVENANCE: text})
    reader = Reader(api_of(server), run_objects.NAME, "lab")
    assert settings(reader.provenance(whole=False)) == {}


@pytest.mark.process
def test_a_terminal_gets_no_control_characters_of_it(server: ApiServer) -> None:
    evil = json.dumps({"set": {"a\x1b[2J": "\x1b]0;x\x07"}, "arguments": ["\x1b[2J", "--\x1b[2J"]})
    PlayedCluster(server, annotations={PROVENANCE: evil})
    server.put(paths.config_maps(NAMESPACE), {"metadata": {"name": f"{run_objects.NAME}-job"}, "data": {}})
    told = [cli("ps", "--on", "lab"), cli("rerun", run_objects.NAME, "--on", "lab")]
    assert not [each for each in told if "\x1b" in each.stdout + each.stderr]
