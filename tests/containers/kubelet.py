"""A pod as a kubelet runs it: its volumes, its network, one container after the other, and their ends.

Its containers are runc's. What it does not know in a pod is an error, and no field is passed over. Not had
here: limits of processors, and GPUs.
"""

import re
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from tests.containers.names import Network
from tests.containers.runc import DOCKERS_CAPABILITIES, Container, Mount, Running
from tests.containers.volumes import Available, Image, Object, Volumes
from tests.support import content, until

_POD = {
    "restartPolicy",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "terminationGracePeriodSeconds",
    "securityContext",
    "hostname",
    "subdomain",
    "volumes",
    "initContainers",
    "containers",
}
_SCHEDULERS = {"nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets", "schedulerName"}
_CONTAINER = {
    "name",
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "workingDir",
    "volumeMounts",
    "resources",
    "restartPolicy",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
}
_SECURITY = {
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "capabilities",
    "seccompProfile",
}
_SERVICE = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
}
"""Every container has these, with or without `enableServiceLinks`."""
_MESSAGE_BYTES = 4096
_KILLED = 128 + signal.SIGKILL


class Pod:
    """A pod that runs; `folder` is its own, and is made here. Its sandbox is there at once.

    The thread that makes it must go on for as long as the pod does. `started` and `ended` are the times of
    its containers (seconds since 1970), `codes` their exit codes.
    """

    def __init__(self, manifest: Object, folder: Path, network: Network, available: Available) -> None:
        self.metadata, self.spec = manifest["metadata"], manifest["spec"]
        _check(self.spec, _POD | _SCHEDULERS)
        assert self.spec["restartPolicy"] == "Never", "a failed container would be started again"
        assert self.spec.get("automountServiceAccountToken") is False, "there is no token here"
        self._folder, self._available = folder, available
        (folder / "logs").mkdir(parents=True)
        self.volumes = Volumes(self.spec.get("volumes", ()), folder / "volumes", available)
        name = ".".join(filter(None, (self.spec["hostname"], self.spec.get("subdomain", ""))))
        self.sandbox = network.attach(name)
        (folder / "resolv.conf").write_text(network.resolver())
        (folder / "hosts").write_text(self.sandbox.hosts())
        (folder / "hostname").write_text(f"{self.spec['hostname']}\n")
        self.codes: dict[str, int] = {}
        self.started: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self._running: dict[str, Running] = {}
        self._lock = Lock()
        self._is_stopped = False
        self._work: Future[None] | None = None

    def start(self, threads: Executor) -> None:
        """Start its containers, one after the other, in a thread."""
        self._work = threads.submit(self._run)

    def wait(self) -> dict[str, int]:
        """Wait for its end: the exit codes of those of its containers that ran."""
        assert self._work is not None
        try:
            self._work.result(timeout=60)
        except TimeoutError:
            raise AssertionError({name: self.log(name) for name in self._running}) from None
        return self.codes

    def is_over(self) -> bool:
        """Whether all of it has ended; raises what went wrong in this kubelet."""
        if self._work is None or not self._work.done():
            return False
        self._work.result()
        return True

    def wait_until_said(self, name: str, text: str) -> None:
        """Wait until a container has written a text, which it must do before the pod ends."""
        until(lambda: text in self.log(name) or (self._work and self._work.done()))
        assert text in self.log(name), self.log(name)

    def stop(self) -> None:
        """What deleting it does: SIGTERM to all but sidecars, which are to end after the others."""
        with self._lock:
            self._is_stopped = True
            running = [
                self._running[name]
                for name in self._names
                if name in self._running and name not in self.codes
            ]
        for container in running:
            container.stop(self._grace)

    def close(self) -> None:
        """Have nothing of it left."""
        with self._lock:
            self._is_stopped = True
        for container in self._running.values():
            if container.process.poll() is None:
                container.stop()
            container.end()
        self.sandbox.close()

    def running(self, name: str) -> Running:
        """One of its containers."""
        return self._running[name]

    def log(self, name: str) -> str:
        """What a container has written, as ``kubectl logs`` shows it."""
        return self.written(name).decode()

    def written(self, name: str, start: int = 0) -> bytes:
        """What a container has written, from a byte on."""
        return content(self._folder / "logs" / name)[start:]

    def message(self, name: str) -> str:
        """The termination message of a container."""
        return content(self._folder / f"{name}.message")[-_MESSAGE_BYTES:].decode(errors="replace")

    def processes(self) -> Iterator[Path]:
        """All that run in it, but for what holds its network: directories in ``/proc``."""
        own = self.sandbox.path.readlink()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "ns/net").readlink() == own and process.name != str(self.sandbox.holder.pid):
                    yield process

    @property
    def _grace(self) -> float:
        return float(self.spec.get("terminationGracePeriodSeconds", 30))

    @property
    def _names(self) -> list[str]:
        """Of its containers that are no sidecars."""
        specs = (*self.spec.get("initContainers", ()), *self.spec["containers"])
        return [spec["name"] for spec in specs if "restartPolicy" not in spec]

    def _run(self) -> None:
        try:
            for spec in self.spec.get("initContainers", ()):
                if not self._begin(spec):
                    return
                if "restartPolicy" in spec:
                    self._running[spec["name"]].wait_for_start()
                elif self._end(spec["name"]):
                    return
            started = [spec["name"] for spec in self.spec["containers"] if self._begin(spec)]
            for name in started:
                self._end(name)
        finally:
            for name in reversed([name for name in self._running if name not in self.codes]):
                # Once, even if the pod is deleted meanwhile: containerd sends no second one.
                self._running[name].stop(self._grace)
                assert self._end(name) != _KILLED, f"{name} did not end in time"

    def _begin(self, spec: Object) -> bool:
        """Start a container, unless the pod is to stop."""
        with self._lock:
            if not self._is_stopped:
                name = spec["name"]
                log = self._folder / "logs" / name
                self._running[name] = Running(self._container(spec), self._folder, log)
                self.started[name] = time.time()
            return not self._is_stopped

    def _end(self, name: str) -> int:
        code = self._running[name].end().code
        self.ended[name] = time.time()
        self.codes[name] = code
        return code

    def _container(self, spec: Object) -> Container:
        _check(spec, _CONTAINER)
        image = self._available.images[spec["image"]]
        context = {**self.spec.get("securityContext", {}), **spec.get("securityContext", {})}
        _check(context, _SECURITY)
        user = context.get("runAsUser", image.user)
        assert user or not context.get("runAsNonRoot"), "the kubelet would not start it"
        return Container(
            image.root,
            _argv(spec, image),
            {
                "HOSTNAME": self.spec["hostname"],
                **image.environment,
                **_SERVICE,
                **self._environment(spec),
            },
            self._mounts(spec, image),
            user=user,
            group=context.get("runAsGroup", 0),
            work=spec.get("workingDir", "/"),
            capabilities=_capabilities(context.get("capabilities", {})),
            read_only=context.get("readOnlyRootFilesystem", False),
            memory=_bytes(spec.get("resources", {}).get("limits", {}).get("memory", "")),
            shm=self.volumes.shm(spec),
            hostname=self.spec["hostname"],
            network=self.sandbox.path,
            can_gain_privileges=context.get("allowPrivilegeEscalation", True),
        )

    def _mounts(self, spec: Object, image: Image) -> list[Mount]:
        message = self._folder / f"{spec['name']}.message"
        message.touch()
        message.chmod(0o666)
        named = [Mount(self._folder / name, f"/etc/{name}") for name in ("hosts", "hostname", "resolv.conf")]
        named.append(Mount(message, spec.get("terminationMessagePath", "/dev/termination-log")))
        # What is mounted into another one comes later.
        return sorted(
            [*image.mounts, *named, *self.volumes.mounts(spec)], key=lambda each: each.target.count("/")
        )

    def _environment(self, spec: Object) -> dict[str, str]:
        found: dict[str, str] = {}
        for variable in spec.get("env", ()):
            value = variable.get("value", "")
            value = re.sub(r"\$\(([A-Z_]+)\)", lambda match: found[match[1]], value)
            if "valueFrom" in variable:
                ((kind, source),) = variable["valueFrom"].items()
                assert kind == "fieldRef", variable
                value = self._field(source["fieldPath"])
            found[variable["name"]] = value
        return found

    def _field(self, path: str) -> str:
        """What the downward API says; nothing for a label that is not there."""
        if path == "status.podIP":
            return self.sandbox.address
        area, _, field = path.partition(".")
        assert area == "metadata", f"this kubelet does not know {path}"
        field, _, key = field.partition("['")
        value = self.metadata.get(field, {} if key else "")
        return str(value.get(key.removesuffix("']"), "") if key else value)


def _check(given: Object, known: set[str]) -> None:
    assert given.keys() <= known, f"this kubelet does not know {sorted(given.keys() - known)}"


def _argv(spec: Object, image: Image) -> list[str]:
    """A command takes the place of the image's own, and of its arguments; arguments that of these alone."""
    arguments = spec.get("args") or ([] if spec.get("command") else image.command)
    return [*(spec.get("command") or image.entrypoint), *arguments]


def _capabilities(given: Mapping[str, Any]) -> tuple[str, ...]:
    """As containerd does it: what is dropped, then what is added."""
    dropped = set(given.get("drop", ()))
    kept = set() if "ALL" in dropped else set(DOCKERS_CAPABILITIES) - dropped
    return tuple(sorted(kept | set(given.get("add", ()))))


def _bytes(quantity: str) -> int | None:
    if not quantity:
        return None
    units = {"Ki": 10, "Mi": 20, "Gi": 30}
    return int(quantity[:-2]) << units[quantity[-2:]]
