"""A cluster's network: a bridge, a name server, and for each pod a network namespace with an address.

All of it is held by processes that end with the one that made them, so that nothing outlives a test.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import content, until

NAMESPACE = "default"
DOMAIN = f"{NAMESPACE}.svc.cluster.local"

_PORT_53 = b":0035 "
_BELOW = ("unshare", "--pid", "--fork", "--kill-child", "sh", "-c", '"$@" & wait', "sh")
"""All that is run so ends with whoever has started it; the name server itself makes no such promise."""
_NAME_SERVER = (
    "dnsmasq",
    "--keep-in-foreground",
    "--conf-file=/dev/null",
    "--pid-file=",
    "--user=root",
    "--bind-interfaces",
    "--no-resolv",
    "--no-hosts",
    "--local=/#/",
    "--local-ttl=0",
)
"""It knows nothing but what it is given, and says so of all other names."""


class Network:
    """The network of a cluster; `folder` is its own, and is made here."""

    def __init__(self, folder: Path) -> None:
        self._names = folder / "names"
        self._names.mkdir(parents=True)
        self._server_address = "10.244.0.1"
        self._links = 0
        self._node = _hold(["unshare", "--net", "sleep", "infinity"])
        # With an address of its own: else it is that of a port, and changes when another one is added.
        _ip(self._node, "link add br0 address 02:00:0a:f4:00:01 type bridge", "link set br0 up")
        _ip(self._node, "link set lo up", f"addr add {self._server_address}/16 dev br0")
        addresses = [f"--listen-address={self._server_address}", f"--hostsdir={self._names}"]
        self._server = _hold([*_enter(self._node), *_BELOW, *_NAME_SERVER, *addresses])
        until(lambda: _PORT_53 in content(Path(f"/proc/{self._node.pid}/net/udp")))

    def attach(self, name: str) -> "Attached":
        """A namespace for a pod, whose name is not known yet."""
        self._links += 1
        number = self._links
        attached = Attached(name, f"10.244.{number // 250 + 1}.{number % 250 + 1}")
        peer = f"peer name eth0 netns {attached.holder.pid}"
        _ip(self._node, f"link add pod{number} type veth {peer}")
        _ip(self._node, f"link set pod{number} master br0", f"link set pod{number} up")
        _ip(attached.holder, "link set lo up", f"addr add {attached.address}/16 dev eth0")
        _ip(attached.holder, "link set eth0 up", f"route add default via {self._server_address}")
        return attached

    def publish(self, attached: "Attached") -> None:
        """Let the name server know the pod, as that of a headless service with unready addresses does."""
        (self._names / attached.name).write_text(f"{attached.address} {attached.name}.{DOMAIN}\n")

    def retract(self, attached: "Attached") -> None:
        """Let the name server forget the pod."""
        (self._names / attached.name).unlink(missing_ok=True)

    def resolver(self) -> str:
        """The ``resolv.conf`` of pods, as the kubelet writes it."""
        search = f"{DOMAIN} svc.cluster.local cluster.local"
        return f"search {search}\nnameserver {self._server_address}\noptions ndots:5\n"

    def close(self) -> None:
        """End it; the pods' namespaces end with their containers."""
        _release(self._server)
        _release(self._node)


class Attached:
    """The network namespace of a pod; `name` is its hostname with its subdomain, if it has one."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.holder = _hold(["unshare", "--net", "sleep", "infinity"])

    @property
    def path(self) -> Path:
        return Path(f"/proc/{self.holder.pid}/ns/net")

    def hosts(self) -> str:
        """The ``/etc/hosts`` of the pod, as the kubelet writes it."""
        hostname = self.name.partition(".")[0]
        local = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
        return f"# Kubernetes-managed hosts file.\n{local}{self.address}\t{self.name}.{DOMAIN}\t{hostname}\n"

    def close(self) -> None:
        _release(self.holder)


def _hold(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process that is killed when the thread that has started it ends."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *argv], stdin=subprocess.DEVNULL)
    before = Path("/proc/self/ns/net").readlink()
    if argv[0] == "unshare":
        until(lambda: process.poll() is not None or Path(f"/proc/{process.pid}/ns/net").readlink() != before)
    return process


def _release(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _enter(holder: subprocess.Popen[bytes]) -> list[str]:
    return ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]


def _ip(holder: subprocess.Popen[bytes], *lines: str) -> None:
    subprocess.run([*_enter(holder), "ip", "-batch", "-"], input="\n".join(lines).encode(), check=True)
