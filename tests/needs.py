"""What a test may need of the machine: ``@pytest.mark.needs("root", "openssh-server")``.

Each need is probed once, by really doing what the tests do. A test whose need is not met is skipped, and the
last lines of the run say what would meet the needs. No test decides that on its own.
"""

import ctypes
import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.job_environment import job_environment
from tests.language_server import language_server
from tests.lost_peer import drop_packets
from tests.memory_cgroup import memory_cgroup
from tests.podman import runs_containers

NOTHING_SKIPPED: Final = "PAI_TEST_NOTHING_SKIPPED"
"""Set where everything is there, as in CI: then a skipped test is a failed one."""

PACKAGES: Final[Mapping[str, str]] = {
    "bash-static": "bash-static",
    "binutils": "readelf",
    "busybox-static": "busybox",
    "charliecloud": "ch-run",
    "chromium": "chromium",
    "chromium-driver": "chromedriver",
    "curl": "curl",
    "dash": "dash",
    "dnsmasq-base": "dnsmasq",
    "docker-registry": "docker-registry",
    "fish": "fish",
    "iproute2": "ip",
    "libnss-wrapper": "/usr/lib/*/libnss_wrapper.so",
    "mmdebstrap": "mmdebstrap",
    "munge": "munged",
    "musl-tools": "musl-gcc",
    "nfs-common": "mount.nfs4",
    "nfs-ganesha": "ganesha.nfsd",
    "nfs-ganesha-vfs": "/usr/lib/*/ganesha/libfsalvfs.so",
    "nodejs": "node",
    "npm": "npm",
    "openmpi-bin": "mpirun",
    "openssh-client": "ssh",
    "openssh-server": "sshd",
    "openssl": "openssl",
    "perl": "shasum",
    "podman": "podman",
    "postgresql": "/usr/lib/postgresql/*/bin/initdb",
    "python3-torch": "/usr/lib/python3/dist-packages/torch",
    "runc": "runc",
    "slurm-client": "sbatch",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "strace": "strace",
    "unzip": "unzip",
    "util-linux": "setpriv",
    "wget": "wget",
    "zsh": "zsh",
}
"""The Debian packages that tests need, each with a program of it, or a pattern of one of its files."""

MOUNT_NAMESPACE: Final = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
"""What a command is run with that mounts something."""

FUSE: Final = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fuse = os.dup2(os.open("/dev/fuse", os.O_RDWR), 60)  # out of the way of those that the supervisor uses
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
if libc.unshare(0x20000) or libc.mount(None, b"/", None, 0x44000, None):
    sys.exit("no namespace")
if libc.mount(b"dead", sys.argv[1].encode(), b"fuse", 0, options):
    sys.exit("no FUSE")
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Runs a program where a file system is mounted that answers nothing, as that of a server that died."""

_LOOK = """
import ctypes, os, sys, time
read, write = os.pipe()
child = os.fork()
if child == 0:
    ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
    os.write(write, b"x")
    time.sleep(100)
os.read(read, 1)
try:
    open(f"/proc/{child}/environ").close()
finally:
    os.kill(child, 9)
"""

_TRACE = """
import os, time
from pystack.engine import get_process_threads
traced = os.fork()
if traced == 0:
    time.sleep(100)
tracer = os.fork()
if tracer == 0:
    found = 1
    try:
        found = not list(get_process_threads(traced))
    finally:
        os._exit(found)
try:
    raise SystemExit(os.waitpid(tracer, 0)[1] != 0)
finally:
    os.kill(traced, 9)
"""


def _works(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _makes_user_namespaces() -> bool:
    """With all that isolates a task: mounts, processes of its own, and an overlay."""
    script = "mkdir low up work; mount -t overlay -o lowerdir=low,upperdir=up,workdir=work none low; : >low/x"
    with tempfile.TemporaryDirectory() as folder:
        namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
        return _works(*namespaces, "sh", "-ec", f"cd '{folder}'; {script}")


def _nests_overlays() -> bool:
    """As a run in a task of a run does: an overlay of an overlay of this machine's root."""
    over = "mount -t overlay -o lowerdir={},upperdir={}/up,workdir={}/work none {}/at"
    layers = [over.format(lower, *[layer] * 3) for lower, layer in (("/usr/bin", "one"), ("one/at", "two"))]
    script = f"mkdir -p one/up one/work one/at two/up two/work two/at; {'; '.join(layers)}"
    with tempfile.TemporaryDirectory() as folder:
        return _works(
            "unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", f"cd '{folder}'; {script}"
        )


def _mounts_fuse() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return _works(sys.executable, "-c", FUSE, folder, "true")


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def _resolves_itself() -> bool:
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True


def _has_environment(name: str) -> bool:
    try:
        job_environment(name)
    except subprocess.CalledProcessError:
        return False
    return True


def _has_language_server() -> bool:
    try:
        language_server()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return False
    return True


def _makes_memory_cgroup() -> bool:
    try:
        with memory_cgroup(64 << 20):
            return True
    except PermissionError:
        return False


def _filters_packets() -> bool:
    with socket.socket() as any_socket:
        try:
            drop_packets(any_socket)
        except PermissionError:
            return False
    return True


def _knows_clone3() -> bool:
    return ctypes.CDLL(None, use_errno=True).syscall(435, None, 0) < 0 and ctypes.get_errno() != errno.ENOSYS


def _runs_containers() -> bool:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return runs_containers(Path(folder))


@dataclass(frozen=True)
class Need:
    """`is_met` probes it; `met_by` says where it is met."""

    is_met: Callable[[], bool]
    met_by: str


_PRIVILEGED = "a machine or a virtual machine; of a container, one that is privileged"
RIGHTS: Final[Mapping[str, Need]] = {
    "root": Need(lambda: os.geteuid() == 0, "run them as root"),
    "mounts": Need(lambda: _works(*MOUNT_NAMESPACE, "mount", "-t", "tmpfs", "none", "/tmp"), _PRIVILEGED),
    "user namespaces": Need(_makes_user_namespaces, _PRIVILEGED),
    "nested overlays": Need(_nests_overlays, "a machine whose root is no overlay"),
    "FUSE": Need(_mounts_fuse, f"{_PRIVILEGED}, as root"),
    "memory cgroup": Need(_makes_memory_cgroup, f"{_PRIVILEGED}, as root"),
    "clone3": Need(_knows_clone3, _PRIVILEGED),
    "packet filters": Need(_filters_packets, f"{_PRIVILEGED}, as root"),
    "containers": Need(
        _runs_containers,
        f"{_PRIVILEGED}, with podman, runc, aardvark-dns, and for an ordinary user uidmap, slirp4netns and a"
        " /dev/net/tun that it may open",
    ),
    "tracing siblings": Need(
        lambda: _works(sys.executable, "-c", _TRACE),
        "kernel.yama.ptrace_scope is 0, or run them as root; of a container, one that allows it",
    ),
    "ptrace": Need(lambda: _works(sys.executable, "-c", _LOOK), f"{_PRIVILEGED}, as root"),
}
"""What depends on who runs the tests, and where."""

_OTHER: Final[Mapping[str, Need]] = {
    "axe": Need(lambda: find_spec("axe_selenium_python") is not None, "Python 3.12 or later"),
    "IPv6": Need(_has_ipv6, "a machine with the address ::1"),
    "libyaml": Need(lambda: hasattr(yaml, "CSafeLoader"), "a PyYAML that was built with libyaml"),
    "host name": Need(_resolves_itself, "a line with the machine's own name in /etc/hosts"),
    "canaille": Need(lambda: _has_environment("canaille"), "a package index that can be reached"),
    "jax": Need(lambda: _has_environment("jax"), "a package index that can be reached"),
    "notebook": Need(lambda: _has_environment("notebook"), "a package index that can be reached"),
    "yaml-language-server": Need(_has_language_server, "npm, and a package registry that can be reached"),
}
_OF_FIXTURES: Final[Mapping[str, tuple[str, ...]]] = {"bundle": ("bash-static", "busybox-static")}


@cache
def is_met(need: str) -> bool:
    """Whether this machine has it."""
    if need in PACKAGES:
        known_by = PACKAGES[need]
        if known_by.startswith("/"):
            return any(Path("/").glob(known_by[1:]))
        return shutil.which(known_by, path=f"{os.environ['PATH']}:/usr/sbin") is not None
    return {**RIGHTS, **_OTHER}[need].is_met()


def needs_of(item: pytest.Item) -> Iterator[str]:
    """What a test needs, by its markers and by its fixtures."""
    for marker in item.iter_markers("needs"):
        yield from marker.args
    for fixture in getattr(item, "fixturenames", ()):
        yield from _OF_FIXTURES.get(fixture, ())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    unmet = sorted({need for need in needs_of(item) if not is_met(need)})
    if unmet:
        item.user_properties += [("unmet", need) for need in unmet]
        pytest.skip(f"needs {', '.join(unmet)}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    """Say at the very end what was skipped for what, and what would meet it."""
    yield
    skipped = terminalreporter.stats.get("skipped", ())
    each = [{value for name, value in report.user_properties if name == "unmet"} for report in skipped]
    kinds = Counter(
        kind for unmet in each for kind in {"Debian packages" if n in PACKAGES else n for n in unmet}
    )
    if not kinds:
        return
    counts = ", ".join(f"{count} for {kind}" for kind, count in kinds.most_common())
    terminalreporter.line(f"{len(skipped)} tests were skipped (some for more than one): {counts}.")
    packages = sorted({need for unmet in each for need in unmet if need in PACKAGES})
    ways: dict[str, list[str]] = {}
    for kind in sorted(kinds.keys() - {"Debian packages"}):
        ways.setdefault({**RIGHTS, **_OTHER}[kind].met_by, []).append(kind)
    if packages:
        ways[f"apt-get install --no-install-recommends {' '.join(packages)}"] = ["Debian packages"]
    each_way = "; ".join(f"{', '.join(kinds)}: {way}" for way, kinds in ways.items())
    terminalreporter.line(f"What they need: {each_way}")
