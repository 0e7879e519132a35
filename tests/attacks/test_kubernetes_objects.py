"""Hostile job files and command lines: what of them comes to a cluster, where others read it."""

import json
from pathlib import Path
from typing import Any

import pytest

from pai_document.problems import InvalidInput
from pai_runtime.engines.interface import RunRequest
from pai_runtime.job.overrides import Overrides
from pai_runtime.runs.errors import CannotRun
from tests.job_harness import planned
from tests.kubernetes.rendering import container, render_job
from tests.support import job, write_job

pytestmark = pytest.mark.process

SECRET = "hunter2-and-more"
JOB = """\
protocolVersion: 2
name: test
type: job
prerequisites: [{name: image, type: dockerimage, uri: 'python:3.12'}]
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}
    commands: [echo <% $secrets.token %>]
"""


@pytest.mark.parametrize("form", ["{0}{1}", "{1}{0}"])
@pytest.mark.parametrize(
    "section",
    [
        "extras: {a: &b {secrets: {token: SECRET}}}\n<<: *b\n",
        "secrets: {token: SECRET}\nsecrets: {token: other}\n",
        "secrets: {token: SECRET}\n---\nsecrets: {token: SECRET}\n",
        "secrets: {token: &t SECRET}\nparameters: {x: *t}\n",
        "parameters: {x: &t SECRET}\nsecrets: {token: *t}\n",
        "extras: {x: &s {token: SECRET}}\nsecrets: *s\n",
        'secrets: {token: SECRET}\nparameters: {x: "\\x68unter2-and-more"}\n',
        "secrets: {token: SECRET}\nparameters: {x: 1,  # SECRET\n  y: 2}\n",
        "secrets: {token: SECRET}\nparameters: {x: !SECRET 1}\n",
        "secrets: {token: SECRET}\nparameters: {SECRET: 1}\n",
        'secrets: {token: SECRET}\nparameters: {"\\x68unter2-and-more": {}}\n',
        "? secrets\n: {token: SECRET}\n",
        "secrets: SECRET\n",
        "secrets: [SECRET]\n",
        "!!str secrets: {token: SECRET}\n",
        "&key secrets: {token: SECRET}\n",
        "'secrets': {token: SECRET}\n",
    ],
)
def test_no_form_of_yaml_gets_a_secret_past_the_mask(tmp_path: Path, section: str, form: str) -> None:
    text = form.format(JOB, section.replace("SECRET", SECRET))
    told = ""
    try:
        told = json.dumps(render_job(tmp_path, text).objects)
    except InvalidInput as error:
        told = str(error)
    assert SECRET not in told


@pytest.mark.parametrize("given", [SECRET, "aHVudGVyMi1hbmQtbW9yZQ==", "hunter2-\nand-more", "a line of it"])
def test_a_secret_on_the_command_line_does_not_come_to_the_cluster(tmp_path: Path, given: str) -> None:
    secrets = {"token": SECRET, "lines": "of more\na line of it\n"}
    document = {**job(secrets=secrets), "parameters": {"x": 1}}
    request = RunRequest("alice", overrides=Overrides({"x": f"a {given}"}))
    with pytest.raises(CannotRun) as raised:
        render_job(tmp_path, document, request=request)
    assert given not in str(raised.value)


def test_a_password_for_an_image_does_not_come_to_the_cluster_in_the_open(tmp_path: Path) -> None:
    document = job()
    document["prerequisites"][0] |= {
        "uri": "r.example/x:1",
        "auth": {"username": "u", "password": SECRET, "registryuri": "r.example"},
    }
    assert SECRET not in json.dumps(render_job(tmp_path, document).objects)


@pytest.mark.parametrize("user", ["..", ".", "/", "../..", "...", "../bob", "./"])
def test_no_name_of_a_user_leads_to_the_directories_of_others(tmp_path: Path, user: str) -> None:
    document = job(extras={"storages": [{"name": "scratch"}]})
    rendered = render_job(tmp_path, document, request=RunRequest(user))
    (mount,) = [each for each in container(rendered)["volumeMounts"] if "subPath" in each]
    first, second = mount["subPath"].split("/")
    assert second == "test"
    assert first not in ("", ".", "..", "bob")


@pytest.mark.parametrize(
    "path",
    [
        "/usr/local/pai/x",
        "/usr/local/pai-config",
        "/usr/local/pai-secrets/x",
        "/mnt/../usr/local/pai-config",
        "//etc",
        "/etc/pai-runtime",
        "/opt/pai-runtime/env",
        "/opt",
        "/",
        "/dev/shm",
        "relative",
        "/a\nb",
    ],
)
def test_no_storage_takes_the_place_of_what_the_runtime_needs(tmp_path: Path, path: str) -> None:
    document: dict[str, Any] = job(extras={"storages": [{"name": "datasets", "mountPath": path}]})
    with pytest.raises(InvalidInput):
        planned(write_job(tmp_path, document))
