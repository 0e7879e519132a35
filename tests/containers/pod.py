"""A pod as a kubelet runs it: its volumes are directories of this machine, its containers are runc's."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from pai_pod.handover import Handover, hand_over
from pai_task.folder import Folder
from pai_task.paths import BUNDLE, LAUNCHER, VOLUME
from pai_task.plan import Plan
from tests import pods
from tests.containers.runc import Container, Ended, Mount, Running
from tests.support import PROGRAM

RUNTIME_DIR = f"{VOLUME}/runtime.d"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUNTIME_IMAGE = Path("/")
"""This machine with the environment of the tests, as an image that has the runtime installed."""

_BUNDLE = "/opt/pai-runtime/bundle"
_TERMINATION_LOG = "/tmp/pai-termination-log"
ROOT = Path(__file__).parents[2]
PLACES = (ROOT, Path(sys.prefix), Path(sys.base_prefix))
"""What the runtime runs from in the tests."""


class Pod:
    """A pod of ``examples/pods``, in `folder`.

    `contents` is what ConfigMaps and Secrets hold: by volume, texts by key. One without is not mounted, as
    the platform mounts those only that there are.
    """

    def __init__(
        self,
        folder: Path,
        bundle: Path,
        example: str = "openpai",
        contents: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._folder, self.bundle = folder, bundle
        self._pod = pods.example_pod(example)
        self._volumes = {name: folder / name for name in ("pai-vol", "host-log", *(contents or {}))}
        for volume in self._volumes.values():
            volume.mkdir(parents=True)
            volume.chmod(0o777)  # an emptyDir is any user's
        for name, texts in (contents or {}).items():
            _project(self._volumes[name], texts)
        # Its ports come from it, and are the machine's own.
        self.uid = str(uuid4()) if "FC_POD_UID" in self._pod.task.environment else None
        self._own = {"FC_POD_UID": self.uid} if self.uid else {}
        self._termination_log = folder / "termination-log"
        self._termination_log.touch()
        self._termination_log.chmod(0o666)
        self.volume = self._volumes["pai-vol"]

    @property
    def runtime_dir(self) -> Path:
        return self.volume / "runtime.d"

    @property
    def logs(self) -> Path:
        """That of this pod; without the platform's mount, on the volume."""
        return self._volumes["host-log"] / self.uid if self.uid else self.volume / "logs" / "pod"

    def prepare(self, plan: Plan, secrets: Mapping[str, str] | None = None) -> None:
        """Leave what an init container leaves, of a plan without init steps."""
        for path in (self.runtime_dir, self.logs):
            path.mkdir(exist_ok=True)
            path.chmod(0o777)
        (self.runtime_dir / "plan.json").write_text(json.dumps(plan.to_json()))
        with Folder.at(self.runtime_dir) as folder:
            hand_over(folder, Handover(f"{VOLUME}/logs/{self.logs.name}", secrets or {}))
        (self.volume / "runtime").write_bytes((self.bundle / "runtime").read_bytes())
        (self.volume / "runtime").chmod(0o755)

    def init(self, **environment: str) -> Ended:
        """The init container from its start to its end; `environment` is added to the pod's own."""
        return self.start_init(environment).end()

    def start_init(self, environment: Mapping[str, str], umask: int | None = None) -> Running:
        """Start the init container."""
        spec = self._pod.init
        env = {"PATH": PATH, **spec.environment, **self._own, **environment}
        mounts = [*elsewhere(), Mount(self.bundle, _BUNDLE, read_only=True), *self._mounts(spec)]
        container = Container(
            RUNTIME_IMAGE,
            [str(PROGRAM), "init"],
            env,
            mounts,
            host_network=self._pod.host_network,
            umask=umask,
        )
        return Running(container, self._folder)

    def task(
        self,
        image: Path,
        *,
        env: Mapping[str, str] | None = None,
        mounts: Sequence[Mount] = (),
        has_termination_log: bool = True,
        **more: Any,
    ) -> Running:
        """Start the task container; a bundle that init has not copied is mounted, as an image volume is."""
        spec = self._pod.task
        all_mounts = [*self._mounts(spec), *mounts]
        if has_termination_log:
            all_mounts.append(Mount(self._termination_log, _TERMINATION_LOG))
        if not (self.volume / "bundle" / "bundle.json").exists():
            all_mounts.append(Mount(self.bundle, BUNDLE, read_only=True))
        environment = {"PATH": PATH, **spec.environment, **self._own, **(env or {})}
        more = {"host_network": self._pod.host_network, **more}
        return Running(Container(image, [LAUNCHER], environment, all_mounts, **more), self._folder)

    def run_task(self, image: Path, **more: Any) -> Ended:
        """The task container from its start to its end."""
        return self.task(image, **more).end()

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = yaml.safe_load((self.logs / "exit.yaml").read_text())
        return record

    @property
    def termination_message(self) -> str:
        return self._termination_log.read_text()

    @property
    def runtime_log(self) -> list[str]:
        """The texts of ``runtime.log`` without their date."""
        lines = (self.logs / "runtime.log").read_text().splitlines()
        return [line.partition("[openpai-runtime] ")[2] for line in lines]

    def _mounts(self, spec: pods.Container) -> list[Mount]:
        named = ((target, volume["name"]) for target, (volume, _) in spec.mounts.items())
        found = [Mount(self._volumes[name], target) for target, name in named if name in self._volumes]
        return sorted(found, key=lambda mount: mount.target)  # what is mounted into another one comes later


def _project(volume: Path, texts: Mapping[str, str]) -> None:
    """Files as the kubelet has them, which exchanges all of them at once."""
    data = volume / "..2026_05_09_03_32_11.825915050"
    data.mkdir(mode=0o755)
    (volume / "..data").symlink_to(data.name)
    for key, text in texts.items():
        (data / key).write_text(text)
        (volume / key).symlink_to(f"..data/{key}")


def elsewhere() -> list[Mount]:
    """What the tests' environment has on other file systems than this machine's root."""
    root = Path("/").stat().st_dev
    return [Mount(place, str(place), read_only=True) for place in PLACES if place.stat().st_dev != root]
