"""A real Slurm of a few nodes on this machine's loopback, wholly as the user who runs the tests."""

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

NEEDS: Final = ("munge", "slurm-client", "slurmctld", "slurmd", "util-linux")
"""The Debian packages of it, as `needs` has them."""

_PARTITION: Final = "PartitionName=main Nodes=ALL Default=YES MaxTime=1:00:00 DefaultTime=10"
_WITHIN: Final = 60.0
_AGAIN: Final = 0.05
_ENVIRONMENT: Final = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
LIMITS_MEMORY: Final = ("ProctrackType=proctrack/cgroup", "TaskPlugin=task/cgroup")
"""Lines of its configuration by which steps are in cgroups that limit their memory, for root only."""

# GPUs are named only, never opened: no cgroup is made of them.
_GPUS: Final = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"


class SlurmCluster:
    """A cluster of nodes ``n1`` and so on, of 8,000 MB and 2 GPUs each, in the partition ``main``."""

    def __init__(self, folder: Path, nodes: int, cpus: int, more: Sequence[str]) -> None:
        self._folder = folder
        self.config = folder / "slurm.conf"
        self.config.write_text(_config(folder, nodes, cpus, more))
        (folder / "gres.conf").write_text(_GPUS)
        (folder / "cgroup.conf").write_text("CgroupPlugin=autodetect\nConstrainRAMSpace=yes\n")
        (folder / "oci.conf").write_text(_oci(folder / "containers"))
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self._munged = self._start("munged", "--foreground", "--force", *_munge(folder))
        _wait((folder / "munge.socket").exists)
        self.controller = self._start("slurmctld", "-D", "-f", str(self.config))
        self._nodes = {f"n{number}": self._start_node(f"n{number}") for number in range(1, nodes + 1)}
        _wait(lambda: self.call("sinfo", "--noheader", "--format=%T").split() == ["idle"])

    def restart_controller(self) -> None:
        """Start the controller again, with the state that it had, and wait until it answers."""
        self.controller = self._start("slurmctld", "-D", "-f", str(self.config))
        _wait(lambda: self.call("sinfo", "--noheader", "--format=%T") != "")

    def kill_node(self, name: str) -> None:
        """Kill the daemon of a node and start it again; its jobs go on."""
        self._nodes[name].kill()
        self._nodes[name].wait()
        self._nodes[name] = self._start_node(name)

    def call(self, *argv: str) -> str:
        """Run a command of Slurm, and return its output; empty if it fails."""
        environment = {**_ENVIRONMENT, "SLURM_CONF": str(self.config)}
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                argv, env=environment, capture_output=True, text=True, timeout=_WITHIN, check=False
            )
            return done.stdout
        return ""

    def close(self) -> None:
        """End all jobs, then all daemons: a node without its controller takes long to end."""
        self.call("scancel", "--signal=KILL", "--full", f"--user={getpass.getuser()}")
        self.call("scancel", f"--user={getpass.getuser()}")
        _end([*self._nodes.values()])
        _end([self.controller, self._munged])

    def _start_node(self, name: str) -> "subprocess.Popen[bytes]":
        return self._start("slurmd", "-D", "-N", name, "-f", str(self.config))

    def _start(self, *argv: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{argv[0]}.log").open("ab") as log:
            # Nothing of it outlives tests that are killed.
            bound = ["setpriv", "--pdeathsig", "KILL", *argv]
            return subprocess.Popen(bound, env=_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@contextlib.contextmanager
def running_slurm(nodes: int = 2, cpus: int = 8, more: Sequence[str] = ()) -> Iterator[SlurmCluster]:
    """Yield a cluster that ends with the context; `more` are lines of its configuration."""
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        cluster = SlurmCluster(Path(folder), nodes, cpus, more)
        try:
            yield cluster
        finally:
            cluster.close()


def _munge(folder: Path) -> Sequence[str]:
    files = {
        "key-file": "munge.key",
        "socket": "munge.socket",
        "pid-file": "munge.pid",
        "seed-file": "munge.seed",
    }
    return [f"--{option}={folder / name}" for option, name in files.items()]


def _oci(state: Path) -> str:
    """Return how the containers of OCI bundles are run, by any user."""
    container = "%n.%u.%j.%s.%t"
    run = {
        "Query": f"state {container}",
        "Kill": f"kill -a {container}",
        "Delete": f"delete --force {container}",
        "Run": f"run {container} -b %b",
    }
    return "".join(
        f'RunTime{name}="runc --rootless=true --root={state} {argv}"\n' for name, argv in run.items()
    )


def _config(folder: Path, nodes: int, cpus: int, more: Sequence[str]) -> str:
    controller, *ports = _free_ports(nodes + 1)
    replaced = {line.partition("=")[0] for line in more} - {"NodeName", "PartitionName"}
    lines = [
        "ClusterName=tests",
        "SlurmctldHost=localhost(127.0.0.1)",
        f"SlurmctldPort={controller}",
        f"SlurmUser={getpass.getuser()}",
        f"SlurmdUser={getpass.getuser()}",
        f"AuthInfo=socket={folder}/munge.socket",
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool-%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.%n.pid",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SlurmdParameters=config_overrides",
        "SchedulerParameters=batch_sched_delay=0,bf_interval=1",
        "ReturnToService=2",
        "DefMemPerCPU=100",
        "GresTypes=gpu",
        *(
            f"NodeName=n{number} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port}"
            f" CPUs={cpus} RealMemory=8000 Gres=gpu:2"
            for number, port in enumerate(ports, 1)
        ),
    ]
    kept = [line for line in lines if line.partition("=")[0] not in replaced]
    return "\n".join([*kept, *more, _PARTITION, ""])


def _free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _WITHIN
    while not condition():
        assert time.monotonic() < until, "Slurm does not start"
        time.sleep(_AGAIN)


def _end(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
