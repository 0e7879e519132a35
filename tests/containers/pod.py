"""A pod as the kubelet makes it: what its containers share, and what they are started with."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pai_runtime.pod.handover import Handover, hand_over
from pai_runtime.task.bundle import LAUNCHER, PREFIX, VOLUME
from pai_runtime.task.folder import Folder
from pai_runtime.task.plan import Plan
from tests.containers.runc import Container, Ended, Mount, Running

RUNTIME_DIR = f"{VOLUME}/runtime.d"
TERMINATION_LOG = "/tmp/pai-termination-log"
UID = "7d4c0a3e-9d2a-4c83-8f2e-0f6f1c1f9a01"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Pod:
    """A pod whose files are in `folder`; its bundle is mounted, as an image volume would be."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self._folder = folder
        self._bundle = bundle
        self.volume, self.host_logs = folder / "pai-vol", folder / "logs"
        self.volume.mkdir()
        self.host_logs.mkdir()
        self._termination_log = folder / "termination-log"
        self._termination_log.touch()
        for shared in (self.volume, self.host_logs, self._termination_log):
            shared.chmod(0o777)  # as the kubelet has them for any user

    @property
    def runtime_dir(self) -> Path:
        return self.volume / "runtime.d"

    @property
    def logs(self) -> Path:
        return self.host_logs / UID

    def prepare(self, plan: Plan, secrets: Mapping[str, str] | None = None) -> None:
        """Leave what an init container leaves, of a plan with no init steps."""
        self.runtime_dir.mkdir(exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        (self.runtime_dir / "plan.json").write_text(json.dumps(plan.to_json()))
        with Folder.at(self.runtime_dir) as folder:
            hand_over(folder, Handover(f"{VOLUME}/logs/{UID}", secrets or {}))
        (self.volume / "runtime").write_bytes((self._bundle / "runtime").read_bytes())
        (self.volume / "runtime").chmod(0o755)
        for path in (self.runtime_dir, self.logs):
            path.chmod(0o777)

    def task(
        self,
        image: Path,
        *,
        env: Mapping[str, str] | None = None,
        mounts: Sequence[Mount] = (),
        **more: Any,
    ) -> Running:
        """Start the task container."""
        shared = (
            Mount(self.volume, VOLUME),
            Mount(self.host_logs, f"{VOLUME}/logs"),
            Mount(self._bundle, PREFIX, read_only=True),
            Mount(self._termination_log, TERMINATION_LOG),
        )
        environment = {"PATH": PATH, "FC_POD_UID": UID, **(env or {})}
        return Running(Container(image, [LAUNCHER], environment, (*shared, *mounts), **more), self._folder)

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
