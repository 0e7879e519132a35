"""The example pods, as a kubelet reads them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_PODS = Path(__file__).resolve().parents[1] / "examples" / "pods"


@dataclass(frozen=True)
class Container:
    """`mounts`: by mount path, the volume, and the path in it."""

    image: str
    command: tuple[str, ...]
    environment: dict[str, str]
    mounts: dict[str, tuple[dict[str, Any], str]]


@dataclass(frozen=True)
class Pod:
    init: Container
    task: Container
    host_network: bool


def example_pod(name: str) -> Pod:
    """examples/pods/NAME.yaml."""
    spec = yaml.safe_load((_PODS / f"{name}.yaml").read_text("utf-8"))["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    (init,), (task,) = spec["initContainers"], spec["containers"]
    return Pod(_container(init, volumes), _container(task, volumes), spec.get("hostNetwork", False))


def _container(spec: dict[str, Any], volumes: dict[str, Any]) -> Container:
    # An API server drops fields that it does not know, such as `initPlugins` beside a `value`.
    return Container(
        spec["image"],
        tuple(spec.get("command", ())),
        {variable["name"]: variable["value"] for variable in spec["env"]} if "env" in spec else {},
        {
            mount["mountPath"]: (volumes[mount["name"]], mount.get("subPath", ""))
            for mount in spec["volumeMounts"]
        },
    )
