"""The runtime image as it was built: its init container, and a task in another image after it.

`.ci/image` builds it, and runs this file: PAI_TEST_RUNTIME_IMAGE is a directory with its `rootfs`, and with
`image.json`, its configuration.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.containers.runc import Container, Ended, Mount, run
from tests.support import ROOT

pytestmark = pytest.mark.process

VOLUME = Path("/usr/local/pai")
UID = "22000be4-a8f3-4e19-965c-61521c5402df"
ANYBODY = 12345

GREETS = """
commands: ['echo "$GREETING, I am $(id -u)"', 'exit 3']
runtimePlugin:
- {plugin: org.example.greet, parameters: {whom: cluster}}
- {plugin: cmd, parameters: {callbacks: [{event: taskExits, commands: ['echo over']}]}}
"""


@dataclass(frozen=True)
class RuntimeImage:
    """The built image; `folder` is for what its containers leave."""

    root: Path
    config: dict[str, Any]
    folder: Path

    @property
    def volume(self) -> Path:
        return self.folder / "pai-vol"

    def run(self, *args: str, user: int = ANYBODY, **env: str) -> Ended:
        """A container of it, with the arguments in the place of its own, if there are any."""
        given = dict(each.split("=", 1) for each in self.config["Env"])
        argv = [*self.config["Entrypoint"], *(args or self.config["Cmd"])]
        return run(
            Container(self.root, argv, {**given, **env}, self.mounts, user, read_only=True), self.folder
        )

    @property
    def mounts(self) -> list[Mount]:
        return [Mount(self.volume, str(VOLUME))]


@pytest.fixture
def built(tmp_path: Path) -> RuntimeImage:
    given = Path(os.environ["PAI_TEST_RUNTIME_IMAGE"])
    image = json.loads((given / "image.json").read_text())
    made = RuntimeImage((given / "rootfs").resolve(), image["OCIv1"]["config"], tmp_path)
    made.volume.mkdir(mode=0o777)
    made.volume.chmod(0o777)  # as the kubelet makes an emptyDir
    return made


@pytest.mark.parametrize("user", [0, ANYBODY])
def test_its_policy_is_in_force_for_everybody(built: RuntimeImage, user: int) -> None:
    done = built.run("plugins", "list", "--json", user=user)
    assert done.code == 0, done.stderr
    rows = {row["id"]: row for row in json.loads(done.stdout)}
    assert {id_ for id_, row in rows.items() if not row["allowed"]} == {
        "com.microsoft.pai.runtimeplugin.tensorboard"
    }
    assert rows["org.example.greet"]["distribution"] == "pai-greet"


def test_a_job_runs_in_it(built: RuntimeImage) -> None:
    shutil.copy(ROOT / "examples/hello.yaml", built.volume)
    done = built.run("run", f"{VOLUME}/hello.yaml", "--out", f"{VOLUME}/run")
    assert (done.code, "hello from task worker/0" in done.stdout) == (0, True), done.stderr


def test_it_trusts_the_authority_of_the_company(built: RuntimeImage) -> None:
    own = (built.root / "usr/local/share/ca-certificates/company.crt").read_text("ascii")
    assert own in (built.root / "etc/ssl/certs/ca-certificates.crt").read_text("ascii")


def test_its_bundle_has_the_plugins_that_the_policy_allows_and_no_other(built: RuntimeImage) -> None:
    names = {path.name for path in (built.root / "opt/pai-runtime/bundle/site").iterdir()}
    assert {
        "pai_document",
        "pai_runtime",
        "pai_cmd",
        "pai_git",
        "pai_greet",
        "pai_ssh",
        "pai_storage",
    } <= names
    assert not [name for name in names if name.startswith("pai_tensorboard")]


def test_a_pod_runs_from_it_whatever_the_image_of_the_task(
    built: RuntimeImage, image: Callable[[str], Path]
) -> None:
    init = built.run(RUNTIME_CONFIG=GREETS, FC_POD_UID=UID)
    assert init.code == 0, init.stderr
    task = Container(
        image("busybox"),
        [str(VOLUME / "runtime")],
        {"FC_POD_UID": UID},
        built.mounts,
        ANYBODY,
        read_only=True,
    )
    ended = run(task, built.folder)
    assert ended.code == 3, ended.stderr
    logs = built.volume / "logs" / UID
    assert (logs / "user-stdout/current").read_text() == f"hello cluster, I am {ANYBODY}\n"
    printed = [
        line.partition("] [openpai-runtime] ")[2] for line in (logs / "runtime.log").read_text().splitlines()
    ]
    assert [line for line in printed if not line.startswith("[")] == ["hello cluster", "over"]


def test_a_pod_that_uses_what_the_policy_refuses_does_not_begin(built: RuntimeImage) -> None:
    refused = "commands: [true]\nruntimePlugin:\n- {plugin: tensorboard, parameters: {logdir: logs}}\n"
    init = built.run(RUNTIME_CONFIG=refused)
    assert init.code == 1
    assert "pai-tensorboard 0.1.0) is refused" in init.stderr
    assert not (built.volume / "runtime").exists()
