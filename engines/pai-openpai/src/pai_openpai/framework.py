"""The Framework, FrameworkController's object for a job's pods, as the API server returns it.

Only what the runtime uses is read, and all of that is checked: its texts end up in environments and files of
tasks.
"""

from __future__ import annotations

import binascii
import zlib

from pai_document.amounts import size_text
from pai_openpai.framework_field import BadFramework, Field
from pai_openpai.ltp_ports import is_of_ltp
from pai_openpai.port_spec import PortSpec, read_port_spec
from pai_pod.addresses import is_address
from pai_task.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pai_runtime.plan.environment import TaskName

__all__ = ["BadFramework", "Framework", "FrameworkRole", "FrameworkTask", "read_framework"]

MOST_BYTES = 32 * 1024 * 1024
"""Maximum size of the object, and of its uncompressed parts; 10,000 tasks have 8 MB."""
MOST_TASKS = 100_000
MOST_PORTS = 1_000_000
"""Maximum number of ports of all tasks together, each of which is calculated."""

_ANNOTATION = "rest-server/port-scheduling-spec"
_GZIP = 16 + zlib.MAX_WBITS


@record(frozen=True)
class FrameworkTask:
    """A task's address, which is that of its pod's host, and its pod's UID; each None if unknown."""

    host: str | None = None
    pod_uid: str | None = None


_UNKNOWN = FrameworkTask()


@record(frozen=True)
class FrameworkRole:
    """A task role, by its converted name (`pai_task.names`), with its tasks by index."""

    name: str
    ports: PortSpec
    tasks: tuple[FrameworkTask, ...]


@record(frozen=True)
class Framework:
    """A Framework; `job_file` is the YAML of its job with masked secrets, None if it has no job."""

    roles: tuple[FrameworkRole, ...]
    job_file: str | None

    def missing(self) -> list[str]:
        """Return the names of the tasks without a known address, such as ``worker-0``."""
        return [
            f"{role.name}-{index}"
            for role in self.roles
            for index, task in enumerate(role.tasks)
            if task.host is None
        ]


def read_framework(document: bytes, uid: str = "") -> Framework:
    """Read the Framework in a JSON document. Raises `BadFramework`.

    `uid` is the UID that it must have, if known: a job that is deleted and submitted again gets another
    Framework of the same name.
    """
    root = Field(None)
    if len(document) > MOST_BYTES:
        raise root.bad(f"expected at most {size_text(MOST_BYTES)}, found {size_text(len(document))}")
    root = root.parsed(document)
    metadata = root.at("metadata")
    own = metadata.get("uid")
    if uid and own and own.data != uid:
        raise own.wrong(f"the UID of the Framework that this pod is part of, {uid!a}")
    annotations = metadata.get("annotations")
    config = annotations.get("config") if annotations else None
    roles = _read_roles(root.at("spec", "taskRoles"), _read_statuses(root))
    return Framework(tuple(roles), config.text() if config else None)


def _read_roles(roles: Field, known: Mapping[TaskName, FrameworkTask]) -> Iterator[FrameworkRole]:
    names: set[str] = set()
    tasks = ports = 0
    for role in roles.items():
        name = role.at("name").text("[a-z0-9]{1,255}", "a name of lower-case letters and digits")
        if name in names:
            raise role.at("name").wrong("a name that no other role has")
        names.add(name)
        number = role.at("taskNumber").number(1, MOST_TASKS)
        pod = role.at("task", "pod")
        annotation = pod.at("metadata", "annotations", _ANNOTATION)
        spec = read_port_spec(annotation, number, is_ltp=is_of_ltp(pod))
        tasks += number
        ports += number * sum(each.count for each in spec.labels.values())
        if tasks > MOST_TASKS or ports > MOST_PORTS:
            limit = f"at most {MOST_TASKS} tasks, and {MOST_PORTS} ports, in all roles together"
            raise role.bad(f"expected {limit}, found {tasks} tasks and {ports} ports")
        yield FrameworkRole(name, spec, tuple(known.get((name, index), _UNKNOWN) for index in range(number)))


def _read_statuses(root: Field) -> dict[TaskName, FrameworkTask]:
    """Return the known tasks, including those that FrameworkController is about to remove."""
    found: dict[TaskName, FrameworkTask] = {}
    for role in _role_statuses(root):
        name = role.at("name").text()
        for task in role.at("taskStatuses").items():
            index = task.at("index")
            key = name, index.number(0, MOST_TASKS)
            if key in found:
                raise index.wrong("an index that no other task of the role has")
            found[key] = _read_task(task.get("attemptStatus"))
    return found


def _role_statuses(root: Field) -> Iterable[Field]:
    """Return the role statuses of the current attempt, which are compressed in a large Framework."""
    status = root.get("status")
    attempt = status.get("attemptStatus") if status else None
    if attempt is None:
        return ()
    roles = attempt.get("taskRoleStatuses")
    compressed = attempt.get("taskRoleStatusesCompressed")
    if compressed and not (roles and roles.data):
        roles = compressed.parsed(_decompressed(compressed))
    return roles.items() if roles else ()


def _read_task(status: Field | None) -> FrameworkTask:
    """Return what the status of a task's current attempt says; empty texts and null mean unknown."""
    host, uid = (status.get("podHostIP"), status.get("podUID")) if status else (None, None)
    address = host.text() if host else ""
    if host and address and not is_address(address):
        raise host.wrong("an IP address")
    pod_uid = uid.text("[A-Za-z0-9-]{0,253}", "a UID of letters, digits and '-'") if uid else ""
    return FrameworkTask(address or None, pod_uid or None)


def _decompressed(field: Field) -> bytes:
    """Return the content of a field that FrameworkController has compressed. Raises `BadFramework`."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacker.decompress(binascii.a2b_base64(field.text()), MOST_BYTES)
    except (ValueError, zlib.error) as error:
        raise field.bad(f"expected gzip in base64: {error}") from None
    if not unpacker.eof:
        is_large = len(unpacked) == MOST_BYTES
        found = f"more than {size_text(MOST_BYTES)}" if is_large else "only a part of it"
        raise field.bad(f"expected gzip in base64, found {found}")
    return unpacked
