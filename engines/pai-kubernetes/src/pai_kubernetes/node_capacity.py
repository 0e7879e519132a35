"""The capacity of nodes, and the requests of pods. Pure; what a cluster says is untrusted."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pai_kubernetes.api.fields import name_of
from pai_network.fields import mapping

_UNITS: Final = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    **{unit: 10.0 ** (6 + 3 * power) for power, unit in enumerate("MGTPE")},
    **{f"{unit}i": 1024.0 ** (1 + power) for power, unit in enumerate("KMGTPE")},
}
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,2})|([A-Za-z]{0,2}))")
_LONGEST: Final = 64


@dataclass(frozen=True)
class Node:
    """A node: its labels, and its resources for pods."""

    name: str
    labels: Mapping[str, Any]
    allocatable: Mapping[str, Any]

    def has(self, selector: Mapping[str, str]) -> bool:
        """Return whether the node has these labels."""
        return all(self.labels.get(key) == value for key, value in selector.items())

    def amount(self, resource: str) -> float:
        """Return how much of a resource pods can have: cores, bytes, or a number."""
        return quantity(self.allocatable.get(resource))


def nodes_of(items: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Return the nodes in a list of an API server."""
    return [
        Node(
            name_of(item)[:_LONGEST],
            mapping(item, "metadata", "labels"),
            mapping(item, "status", "allocatable"),
        )
        for item in items
    ]


def most(nodes: Sequence[Node], resource: str) -> Node:
    """Return the node with most of a resource, out of at least one."""
    return max(nodes, key=lambda node: node.amount(resource))


def requested(pod: Mapping[str, Any]) -> dict[str, float]:
    """Return what a pod requests while its task runs: for its containers, and for its sidecars."""
    beside = [each for each in pod.get("initContainers", ()) if each.get("restartPolicy") == "Always"]
    total: dict[str, float] = {}
    for container in (*pod["containers"], *beside):
        for resource, amount in container.get("resources", {}).get("requests", {}).items():
            total[resource] = total.get(resource, 0) + quantity(amount)
    return total


def quantity(written: Any) -> float:
    """Parse a quantity such as ``250m`` or ``64Gi``; 0 if it is invalid."""
    match = _QUANTITY.fullmatch(written[:_LONGEST]) if isinstance(written, str) else None
    if match is None:
        return float(written) if isinstance(written, (int, float)) else 0.0
    number, exponent, unit = match.groups()
    return float(number + exponent) if exponent else float(number) * _UNITS.get(unit, 0.0)
