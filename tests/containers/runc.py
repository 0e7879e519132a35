"""Containers made by runc, as root: the file system is a tree, whose changes are in memory and go with it."""

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.containers.seccomp import runtime_default
from tests.support import until

DOCKERS_CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""What Docker and containerd give a container that asks for nothing."""

# Everything is unmounted with the namespace, whoever is killed.
_OVERLAY = """
set -e
mount -t tmpfs tmpfs "$1/changes"
mkdir "$1/changes/upper" "$1/changes/work"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/changes/upper,workdir=$1/changes/work" "$1/rootfs"
shift 2
exec "$@"
"""
_MASKED = (
    *(f"/proc/{name}" for name in ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats")),
    *(f"/proc/{name}" for name in ("sched_debug", "scsi", "timer_list", "timer_stats")),
    *("/sys/devices/virtual/powercap", "/sys/firmware"),
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine in a container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Container:
    """What a container is made of.

    `group` is the user's own unless it is given, `umask` the container runtime's. `memory`: how many bytes it
    may use; `shm`: how many its ``/dev/shm`` holds, None: it has none. `network` is the network namespace of
    its pod. One that is not `is_confined` is like a machine of its own: no call is filtered, and nothing of
    ``/proc`` hidden.
    """

    image: Path
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    user: int = 0
    group: int | None = None
    umask: int | None = None
    work: str = "/"
    capabilities: Sequence[str] = DOCKERS_CAPABILITIES
    read_only: bool = False
    memory: int | None = None
    shm: int | None = 64 << 20
    hostname: str = ""
    host_network: bool = True
    network: Path | None = None
    can_gain_privileges: bool = True
    is_confined: bool = True

    def config(self) -> dict[str, Any]:
        """It as the OCI runtime specification writes it."""
        capabilities = [f"CAP_{name}" for name in self.capabilities]
        # As containerd does it: an ordinary user gets them by set-user-ID programs only.
        given = {"bounding": capabilities, "permitted": [] if self.user else capabilities}
        namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        if self.network:
            namespaces.append({"type": "network", "path": str(self.network)})
        elif not self.host_network:
            namespaces.append({"type": "network"})
        resources: dict[str, Any] = {"memory": {"limit": self.memory}} if self.memory else {}
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {
                    "uid": self.user,
                    "gid": self.user if self.group is None else self.group,
                    **({} if self.umask is None else {"umask": self.umask}),
                },
                "args": list(self.argv),
                "env": [f"{name}={value}" for name, value in self.env.items()],
                "cwd": self.work,
                "capabilities": {**given, "effective": given["permitted"]},
                "noNewPrivileges": not self.can_gain_privileges,
            },
            "hostname": self.hostname,
            "root": {"path": "rootfs", "readonly": self.read_only},
            "mounts": [*self._file_systems(), *map(_bind, self.mounts)],
            "linux": {
                "namespaces": namespaces,
                "resources": resources,
                **(self._confinement() if self.is_confined else {}),
            },
        }

    def _confinement(self) -> dict[str, Any]:
        seccomp = runtime_default(self.capabilities)
        return {"maskedPaths": _MASKED, "readonlyPaths": _READ_ONLY, "seccomp": seccomp}

    def _file_systems(self) -> list[dict[str, Any]]:
        pts = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]
        shm = ["nosuid", "noexec", "nodev", "mode=1777", f"size={self.shm}"]
        return [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": pts},
            *(
                [{"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": shm}]
                if self.shm is not None
                else []
            ),
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]},
        ]


def _bind(mount: Mount) -> dict[str, Any]:
    options = ["rbind", "ro" if mount.read_only else "rw"]
    return {"destination": mount.target, "type": "bind", "source": str(mount.source), "options": options}


@dataclass(frozen=True)
class Ended:
    """How a container has ended, and what it wrote."""

    code: int
    stdout: str
    stderr: str


class Running:
    """A container that runs; `folder` is its own, and is made here.

    What it writes is appended to `log`, if there is one; else `end` has it.
    """

    def __init__(self, container: Container, folder: Path, log: Path | None = None) -> None:
        self._id = f"pai-{uuid4().hex[:12]}"
        self._runc = ["runc", "--root", str(folder / "state")]
        bundle = folder / self._id
        self._pid_file = bundle / "pid"
        for name in ("rootfs", "changes"):
            (bundle / name).mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(container.config()))
        overlay = ["unshare", "--mount", "sh", "-c", _OVERLAY, "sh", str(bundle), str(container.image)]
        with ExitStack() as opened:
            output = subprocess.PIPE if log is None else opened.enter_context(log.open("ab"))
            self.process = subprocess.Popen(
                [*overlay, *self._runc, "run", "--pid-file", self._pid_file, "--bundle", bundle, self._id],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE if log is None else output,
                text=True,
            )

    def end(self) -> Ended:
        """Wait for its end."""
        stdout, stderr = self.process.communicate(timeout=90)
        return Ended(self.process.returncode, stdout or "", stderr or "")

    def wait_for_start(self) -> None:
        """Wait until it runs, or has ended."""
        until(lambda: self._pid_file.exists() or self.process.poll() is not None)

    def stop(self, seconds: float = 0) -> None:
        """SIGTERM, as the kubelet stops it, and SIGKILL after so many seconds; without any, at once."""
        self.wait_for_start()
        told = [(signal.SIGTERM, seconds)] if seconds else []
        for number, patience in [*told, (signal.SIGKILL, None)]:
            with suppress(subprocess.CalledProcessError):  # it has just ended
                self.send(number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
                break

    def send(self, number: signal.Signals) -> None:
        """Send its first process a signal, as the kubelet does."""
        argv = [*self._runc, "kill", self._id, str(number.value)]
        subprocess.run(argv, check=True, capture_output=True)

    def exec(self, *argv: str) -> str:
        """Run a program in it; its output."""
        return subprocess.run(
            self.exec_argv(*argv), capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def exec_argv(self, *argv: str, terminal: bool = False) -> list[str]:
        """The command line that runs a program in it."""
        return [*self._runc, "exec", *(["--tty"] if terminal else []), self._id, *argv]


def run(container: Container, folder: Path) -> Ended:
    """A container from its start to its end."""
    return Running(container, folder).end()
