"""The container of a task as arguments of ``podman run`` or ``docker run``."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pai_container.client import Client
from pai_pod.engine import RUNTIME_DIR, paths
from pai_runtime.engine.local import SHARED, Bind

PUBLISHED_AT: Final = "127.0.0.1"
"""The host of this machine at which ports of containers can be reached."""
_OF_PODMAN: Final = ("--http-proxy=false",)
"""What only Podman needs to be told: by itself it passes on proxies, which may have a password."""


@dataclass(frozen=True)
class Container:
    """The container of a task, whose directory is `folder`, inside as outside.

    `host` is its name in the `network`, which is the name of all of the run. `image` is as the program knows
    it. Sizes are in MiB; 0 is the program's own default. `devices` are those of the Container Device
    Interface. `ports` can be reached from this machine. `work` is its working directory, if that is not the
    image's.
    """

    network: str
    host: str
    image: str
    folder: str
    bundle: Path
    cpu: int
    memory: int
    shm: int
    devices: Sequence[str]
    ports: Sequence[int]
    storages: Sequence[Bind]
    work: str | None

    @property
    def name(self) -> str:
        """The name of the container, which no other one on this machine has."""
        return f"{self.network}-{self.host}"


def run_argv(client: Client, container: Container) -> list[str]:
    """Return the command that runs a container until its task has ended."""
    return [client.path, *_options(client, container), f"--entrypoint={_launcher()}", container.image]


def owner_argv(client: Client, container: Container, owner: str) -> list[str]:
    """Return the command that gives the files in the task's directory to `owner`, by a container as root."""
    tool = f"{paths.BUNDLE}/applets/chown"
    limits = ["--network=none", "--user=0", f"--entrypoint={tool}"]
    folder = container.folder
    mounts = _mounts([Bind(str(container.bundle), paths.BUNDLE, read_only=True), Bind(folder, folder)])
    options = (*_common(client, f"{container.name}-owner"), *mounts, *limits)
    return [client.path, *options, container.image, "-R", "-h", owner, folder]


def _launcher() -> str:
    return f"{paths.BUNDLE}/{Path(paths.LAUNCHER).name}"


def _common(client: Client, name: str) -> Iterator[str]:
    yield from ("run", "--rm", f"--name={name}", "--pull=never", "--log-driver=none", "--sig-proxy=false")
    yield "--security-opt=label=disable"  # SELinux would refuse the directories of this machine
    if client.kind == "podman":
        yield from _OF_PODMAN


def _options(client: Client, container: Container) -> Iterator[str]:
    yield from _common(client, container.name)
    yield from (f"--network={container.network}", f"--network-alias={container.host}")
    yield f"--hostname={container.host}"
    if "memory" in client.limits and container.memory:
        yield f"--memory={container.memory}m"
    if "cpu" in client.limits and container.cpu:
        yield f"--cpus={container.cpu}"
    if container.shm:
        yield f"--shm-size={container.shm}m"
    for device in container.devices:
        yield f"--device={device}"
    for port in container.ports:
        yield f"--publish={PUBLISHED_AT}:{port}:{port}"
    yield f"--env={RUNTIME_DIR}={container.folder}"
    own = Bind(container.folder, container.folder)
    # One file for all tasks of the run, by links.
    shared = Bind(f"{container.folder}/{SHARED}", f"{container.folder}/{SHARED}", read_only=True)
    bundle = Bind(str(container.bundle), paths.BUNDLE, read_only=True)
    yield from _mounts([bundle, own, shared, *container.storages])
    if container.work is not None:
        yield f"--workdir={container.work}"


def _mounts(mounts: Sequence[Bind]) -> Iterator[str]:
    for mount in mounts:
        fields = ["type=bind", f"source={mount.source}", f"destination={mount.target}"]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([*fields, *(["readonly"] if mount.read_only else [])])
        yield f"--mount={line.getvalue()}"
