"""The ports of tasks as OpenPAI's REST server schedules them, which every task calculates for all others.

Its annotation gives for each label how many ports a task has, and where they are. By default they are hashed
into a range: md5 of the pod's UID, the label and a number, so that no service has to hand them out. An older
form gives the first port of a label, and the tasks of a role have theirs one after the other from there.

Two ports of one pod may hash to the same number. OpenPAI's first runtime then uses it twice, and the portal
shows it so. We do the same: all tasks, also those with the other runtime, and the portal have to agree. The
port check tells the task whose ports collide.
"""

from __future__ import annotations

from pai_openpai.framework_field import Field
from pai_openpai.ltp_ports import ltp_port
from pai_pod.ports import END, FIRST, hashed_port
from pai_task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_PER_LABEL = 1000
"""Maximum number of ports per label, as in a job file."""
_MOST_PORTS = 65536
_LABEL = "[A-Za-z_][A-Za-z0-9_]*"


@record(frozen=True)
class PortRange:
    """The ports of one label; `start` is the first port of the first task, or None if they are hashed."""

    count: int
    start: int | None = None


@record(frozen=True)
class PortSpec:
    """The annotation of a task role: ports by label, the range of hashed ones, and whether as LTP does."""

    labels: Mapping[str, PortRange]
    first: int = FIRST
    end: int = END
    is_ltp: bool = False

    def ports(self, index: int, pod_uid: str | None) -> dict[str, tuple[int, ...]]:
        """Return the ports of a task by label, without those that are unknown before its pod exists."""
        found, port = {}, ltp_port if self.is_ltp else hashed_port
        for label, each in self.labels.items():
            if each.start is not None:
                start = each.start + each.count * index
                found[label] = tuple(range(start, start + each.count))
            elif pod_uid is not None:
                numbers = range(each.count)
                found[label] = tuple(port(pod_uid, label, n, self.first, self.end) for n in numbers)
        return found


def read_port_spec(annotation: Field, tasks: int, *, is_ltp: bool = False) -> PortSpec:
    """Read the annotation about a role with `tasks` tasks. Raises `BadFramework`.

    Three forms are in use: ``{schedulePortStart, schedulePortEnd, ports: {label: {count}}}``, and the older
    ``{label: {start, count}}``, alone or below ``ports``. A task has a port for ``ssh`` and one for ``http``
    in any case.
    """
    spec = annotation.parsed(annotation.text())
    ports = spec.get("ports")
    is_label = ports is not None and isinstance(ports.data, dict) and type(ports.data.get("count")) is int
    labels = spec if ports is None or is_label else ports
    found = {}
    for label, entry in labels.entries():
        Field(label, labels, label).text(_LABEL, "a label of letters, digits and '_'")
        found[label] = _read_range(entry, tasks)
    is_older = any(each.start is not None for each in found.values())
    for label in ("ssh", "http"):
        if label not in found:
            found[label] = _read_range(labels.at(label), tasks) if is_older else PortRange(1)
    first = _bound(spec, "schedulePortStart", FIRST).number(1, _MOST_PORTS - 1)
    end = _bound(spec, "schedulePortEnd", END).number(first + 1, _MOST_PORTS)
    return PortSpec(found, first, end, is_ltp)


def _bound(spec: Field, key: str, usual: int) -> Field:
    return spec.get(key) or Field(usual, spec, key)


def _read_range(entry: Field, tasks: int) -> PortRange:
    count = entry.at("count").number(1, _MOST_PER_LABEL)
    start = entry.get("start")
    return PortRange(count, start.number(1, _MOST_PORTS - count * tasks) if start else None)
