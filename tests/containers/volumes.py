"""The volumes of a pod as a kubelet lays them out: directories of this machine."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.containers.runc import Mount

Object = Mapping[str, Any]
"""Of Kubernetes, as its API has it."""


@dataclass(frozen=True)
class Image:
    """A container image: a tree of files, with what is elsewhere on this machine, and its configuration.

    The group of its user is 0.
    """

    root: Path
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    user: int = 0

    def path(self, inside: str) -> Path:
        """A directory of it, as an image volume has it."""
        elsewhere = {mount.target: mount.source for mount in self.mounts}
        return elsewhere.get(f"/{inside}", self.root / inside)


@dataclass(frozen=True)
class Available:
    """What pods can mount: objects and images by their names, directories by a claim's or ``server:path``."""

    objects: Mapping[tuple[str, str], Object]
    images: Mapping[str, Image]
    storages: Mapping[str, Path]


class Volumes:
    """Those of one pod, in `folder`, which is made here."""

    def __init__(self, specs: Sequence[Object], folder: Path, available: Available) -> None:
        folder.mkdir()
        self._specs = {spec["name"]: spec for spec in specs}
        assert len(self._specs) == len(specs), "two volumes have one name"
        self._available = available
        self._paths = {name: self._make(spec, folder / name) for name, spec in self._specs.items()}

    def path(self, name: str) -> Path:
        """That of a volume, on this machine."""
        return self._paths[name]

    def mounts(self, container: Object) -> Iterator[Mount]:
        """What a container has of them, but for its ``/dev/shm``."""
        for mount in container.get("volumeMounts", ()):
            assert mount.keys() <= {"name", "mountPath", "subPath", "readOnly"}, mount
            spec = self._specs[mount["name"]]
            if mount["mountPath"] == "/dev/shm":
                continue
            path, inside = self._paths[mount["name"]], mount.get("subPath", "")
            assert not inside.startswith("/"), mount
            assert ".." not in inside.split("/"), mount
            if "image" in spec:
                path = self._available.images[spec["image"]["reference"]].path(inside)
            elif inside:
                path = _made(path, inside)
            never_writable = spec.keys() & {"configMap", "secret", "image"}
            yield Mount(path, mount["mountPath"], bool(never_writable) or mount.get("readOnly", False))

    def shm(self, container: Object) -> int:
        """How many bytes the ``/dev/shm`` of a container holds: a volume's, or what every container has."""
        for mount in container.get("volumeMounts", ()):
            if mount["mountPath"] == "/dev/shm":
                volume = self._specs[mount["name"]]["emptyDir"]
                assert volume["medium"] == "Memory", volume
                assert volume["sizeLimit"].endswith("Mi"), volume
                return int(volume["sizeLimit"].removesuffix("Mi")) << 20
        return 64 << 20

    def _make(self, spec: Object, path: Path) -> Path:
        kind, given = next((key, value) for key, value in spec.items() if key != "name")
        assert len(spec) == 2, spec
        match kind:
            case "emptyDir":
                path.mkdir()
                path.chmod(0o777)
            case "configMap":
                self._project("ConfigMap", given["name"], given, path)
            case "secret":
                self._project("Secret", given["secretName"], given, path)
            case "persistentVolumeClaim":
                return self._available.storages[given["claimName"]]
            case "nfs":
                return self._available.storages[f"{given['server']}:{given['path']}"]
            case "hostPath":
                return Path(given["path"])
            case "image":
                return self._available.images[given["reference"]].root
            case _:
                raise AssertionError(f"this kubelet has no volumes of the kind {kind}")
        return path

    def _project(self, kind: str, name: str, given: Object, path: Path) -> None:
        """The files of a ConfigMap or Secret, which are exchanged all at once: behind a link."""
        data = _contents(self._available.objects[kind, name])
        items = given.get("items") or [{"key": key, "path": key} for key in data]
        path.mkdir()
        # A Secret is in memory, and a new tmpfs has the sticky bit.
        path.chmod(0o1777 if kind == "Secret" else 0o777)
        at_once = path / "..2026_05_09_03_32_11.825915050"
        at_once.mkdir(mode=0o755)
        (path / "..data").symlink_to(at_once.name)
        for item in items:
            assert "/" not in item["path"], item
            file = at_once / item["path"]
            file.write_bytes(data[item["key"]])
            file.chmod(item.get("mode", given.get("defaultMode", 0o644)))
            (path / item["path"]).symlink_to(f"..data/{item['path']}")


def _made(volume: Path, inside: str) -> Path:
    """A directory of a volume; those that are missing get the mode of the volume's own."""
    path = volume
    for name in filter(None, inside.split("/")):
        path /= name
        if not path.exists():
            path.mkdir()
            path.chmod(volume.stat().st_mode & 0o777)
    return path


def _contents(given: Object) -> dict[str, bytes]:
    """The values of a ConfigMap or Secret, by their keys."""
    encoded = given.get("binaryData" if given["kind"] == "ConfigMap" else "data") or {}
    texts = given.get("data" if given["kind"] == "ConfigMap" else "stringData") or {}
    found = {key: base64.b64decode(value, validate=True) for key, value in encoded.items()}
    return {**found, **{key: text.encode() for key, text in texts.items()}}
