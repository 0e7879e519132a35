"""`pai-runtime init` checks the image of its own task, as the user whom the job names, and no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.init_harness import PodFolder, api_server, framework, framework_variables
from tests.registry_server import MANIFEST, PASSWORD, USER, Front, docker_registry, htpasswd, push
from tests.support import made_once

pytestmark = [pytest.mark.process, pytest.mark.needs("docker-registry")]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """One that wants a password, and has one image."""

    def fill(folder: Path) -> None:
        with docker_registry(folder, folder / "data") as address:
            push(address, "x/y:v1", MANIFEST)

    images = made_once(tmp_path_factory, "one image", fill)
    folder = tmp_path_factory.mktemp("registry")
    with docker_registry(folder, images / "data", htpasswd(folder)) as address, Front(address) as front:
        yield front


def job(registry: Front, image: str) -> dict[str, Any]:
    """A job of two roles: the image of the second one is not to be asked for."""
    password = "<% $secrets.password %>"
    auth = {"username": USER, "password": password, "registryuri": f"http://{registry.address}"}
    images = {"mine": f"{registry.address}/{image}", "other": f"{registry.address}/other"}
    role = {"resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0}, "commands": ["true"]}
    return {
        "protocolVersion": 2,
        "name": "job",
        "type": "job",
        "prerequisites": [
            {"name": name, "type": "dockerimage", "uri": uri, "auth": auth} for name, uri in images.items()
        ],
        "secrets": "******",
        "taskRoles": {"first": {**role, "dockerImage": "mine"}, "second": {**role, "dockerImage": "other"}},
    }


@pytest.mark.parametrize(("image", "code"), [("x/y:v1", 0), ("x/y:v2", 254), ("x/Y", 254)])
def test_init_fails_only_if_the_image_is_certainly_missing(
    tmp_path: Path, registry: Front, image: str, code: int
) -> None:
    registry.requests.clear()
    pod = PodFolder(tmp_path, **framework_variables("first"))
    pod.mount("secrets/secrets.yaml", {"password": PASSWORD})
    with api_server(framework(job(registry, image))) as address:
        done = pod.init(KUBE_APISERVER_ADDRESS=address)
    assert done.returncode == code, done.stderr
    assert f"{registry.address}/{image}" in pod.log
    assert PASSWORD not in done.stdout + done.stderr + pod.log
    assert "Traceback" not in done.stderr
    assert not any("other" in request.path for request in registry.requests)


def test_a_registry_that_is_not_reached_is_a_warning(tmp_path: Path) -> None:
    with Front() as gone:
        pass
    pod = PodFolder(tmp_path, **framework_variables("first"))
    pod.mount("secrets/secrets.yaml", {"password": PASSWORD})
    with api_server(framework(job(gone, "x"))) as address:
        done = pod.init(KUBE_APISERVER_ADDRESS=address)
    assert done.returncode == 0, done.stderr
    assert f"[WARNING] image {gone.address}/x" in pod.log
