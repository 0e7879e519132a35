"""Reading FrameworkController's object: what it tells, in all forms, and no fault of it that is not named."""

import base64
import gzip
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_openpai.framework import MOST_BYTES, BadFramework, read_framework
from tests.framework_object import ANNOTATION, Pod, framework_object, hashed, role_status, task_role

WORKERS = (Pod("2320bc0d-db98-4969-965f-077953c6aee9", "10.0.0.1"), Pod("9dd75861", "fd00::2"))
SERVERS = (Pod(),)
_TASK = "status attemptStatus taskRoleStatuses 0 taskStatuses 1"
_TASK_NAME = "status.attemptStatus.taskRoleStatuses[0].taskStatuses[1]"
OLDER = {"ssh": {"start": 20000, "count": 1}, "http": {"start": 21000, "count": 2}}


def document(**fields: Any) -> dict[str, Any]:
    """A Framework of two workers and one server."""
    roles = [task_role("worker", 2, hashed(tcp=2)), task_role("psserver", 1, OLDER)]
    statuses = [role_status("worker", WORKERS), role_status("psserver", SERVERS)]
    return framework_object(roles, statuses, **fields)


def reading(data: Any) -> str:
    """The message of what is wrong with an object."""
    with pytest.raises(BadFramework) as caught:
        read_framework(data if isinstance(data, bytes) else json.dumps(data).encode())
    return str(caught.value)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The object with another value at a path: ``spec taskRoles 0 name``. `...` removes what is there."""
    data = document()
    *above, last = (int(key) if key.isdigit() else key for key in path.split())
    place: Any = data
    for key in above:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


def with_spec(spec: Any) -> dict[str, Any]:
    """The object with another port spec of the workers."""
    text = spec if isinstance(spec, str) else json.dumps(spec)
    return changed(f"spec taskRoles 0 task pod metadata annotations {ANNOTATION}", text)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_tasks_of_all_roles_are_read_as_far_as_they_are_known(*, compressed: bool) -> None:
    framework = read_framework(json.dumps(document(compressed=compressed)).encode())
    assert [role.name for role in framework.roles] == ["worker", "psserver"]
    assert [(task.pod_uid, task.host) for role in framework.roles for task in role.tasks] == [
        *WORKERS,
        (None, None),
    ]
    assert framework.missing() == ["psserver-0"]


@pytest.mark.parametrize(
    ("path", "value", "missing"),
    [
        ("status", None, ["worker-0", "worker-1", "psserver-0"]),
        ("status attemptStatus", None, ["worker-0", "worker-1", "psserver-0"]),
        ("status attemptStatus taskRoleStatuses", None, ["worker-0", "worker-1", "psserver-0"]),
        ("status attemptStatus taskRoleStatuses 0", ..., ["worker-0", "worker-1", "psserver-0"]),
        ("status attemptStatus taskRoleStatuses 0 taskStatuses 0", ..., ["worker-0", "psserver-0"]),
        (
            "status attemptStatus taskRoleStatuses 0 taskStatuses 0 attemptStatus",
            None,
            ["worker-0", "psserver-0"],
        ),
        ("status attemptStatus taskRoleStatuses 1 name", "removed", ["psserver-0"]),
    ],
)
def test_a_task_without_an_address_is_missing(path: str, value: Any, missing: list[str]) -> None:
    assert read_framework(json.dumps(changed(path, value)).encode()).missing() == missing


def test_the_job_file_is_in_it_if_the_framework_was_made_from_one() -> None:
    yaml = "name: jöb\nsecrets: '******'\n"
    assert read_framework(json.dumps(document(config=yaml)).encode()).job_file == yaml
    assert read_framework(json.dumps(document()).encode()).job_file is None


def test_a_framework_of_the_same_name_with_another_uid_is_refused() -> None:
    data = changed("metadata uid", "one")
    text = json.dumps(data).encode()
    assert read_framework(text, "one") == read_framework(text)
    with pytest.raises(BadFramework, match=r"^metadata\.uid: .*'two'.*'one'"):
        read_framework(text, "two")


_SPEC_NAME = f"spec.taskRoles[0].task.pod.metadata.annotations.{ANNOTATION}"


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "x\ny", "\ud800", [], [[]], {}, {"x": 1}])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("metadata", "metadata"),
        ("metadata annotations config", "metadata.annotations.config"),
        ("spec", "spec"),
        ("spec taskRoles", "spec.taskRoles"),
        ("spec taskRoles 0", "spec.taskRoles[0]"),
        ("spec taskRoles 1 name", "spec.taskRoles[1].name"),
        ("spec taskRoles 1 taskNumber", "spec.taskRoles[1].taskNumber"),
        ("spec taskRoles 0 task pod metadata annotations", "spec.taskRoles[0].task.pod.metadata.annotations"),
        (f"spec taskRoles 0 task pod metadata annotations {ANNOTATION}", _SPEC_NAME),
        ("status attemptStatus", "status.attemptStatus"),
        ("status attemptStatus taskRoleStatuses", "status.attemptStatus.taskRoleStatuses"),
        ("status attemptStatus taskRoleStatuses 0", "status.attemptStatus.taskRoleStatuses[0]"),
        (_TASK, _TASK_NAME),
        (f"{_TASK} index", f"{_TASK_NAME}.index"),
        (f"{_TASK} attemptStatus", f"{_TASK_NAME}.attemptStatus"),
        (f"{_TASK} attemptStatus podHostIP", f"{_TASK_NAME}.attemptStatus.podHostIP"),
        (f"{_TASK} attemptStatus podUID", f"{_TASK_NAME}.attemptStatus.podUID"),
    ],
)
def test_a_field_that_is_not_what_it_must_be_is_named(path: str, field: str, wrong: Any) -> None:
    data = changed(path, wrong)
    if is_fine(path, wrong):
        read_framework(json.dumps(data).encode())
    else:
        message = reading(data)
        assert message.startswith(field)
        assert message.isprintable()


def is_fine(path: str, value: Any) -> bool:
    """Whether a value may stand in a place nevertheless: no roles, what is in no use, any text of a job."""
    return (
        (path == "metadata annotations config" and value == "x\ny")
        or (path.endswith(("taskRoles", "taskRoleStatuses")) and value == [])
        or (path.endswith(("metadata", "ttemptStatus")) and isinstance(value, dict))
    )


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("metadata", "metadata"),
        ("spec", "spec"),
        ("spec taskRoles", "spec.taskRoles"),
        ("spec taskRoles 0 name", "spec.taskRoles[0].name"),
        ("spec taskRoles 0 taskNumber", "spec.taskRoles[0].taskNumber"),
        ("spec taskRoles 0 task", "spec.taskRoles[0].task"),
        (f"spec taskRoles 0 task pod metadata annotations {ANNOTATION}", _SPEC_NAME),
        ("status attemptStatus taskRoleStatuses 0 name", "status.attemptStatus.taskRoleStatuses[0].name"),
        (
            "status attemptStatus taskRoleStatuses 0 taskStatuses",
            "status.attemptStatus.taskRoleStatuses[0].taskStatuses",
        ),
        (f"{_TASK} index", f"{_TASK_NAME}.index"),
    ],
)
@pytest.mark.parametrize("nothing", [None, ...])
def test_a_field_that_is_missing_is_named(path: str, field: str, nothing: Any) -> None:
    assert reading(changed(path, nothing)).startswith(f"{field}:")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec taskRoles 1 name", "worker", "spec.taskRoles[1].name"),
        ("spec taskRoles 1 name", "ps_server", "spec.taskRoles[1].name"),
        ("spec taskRoles 1 taskNumber", 10**9, "spec.taskRoles[1].taskNumber"),
        ("spec taskRoles 1 taskNumber", 100_000, "spec.taskRoles[1].task"),
        (f"{_TASK} index", 0, f"{_TASK_NAME}.index"),
        (f"{_TASK} attemptStatus podHostIP", "10.0.0", f"{_TASK_NAME}.attemptStatus.podHostIP"),
        (f"{_TASK} attemptStatus podHostIP", "$(id)", f"{_TASK_NAME}.attemptStatus.podHostIP"),
        (f"{_TASK} attemptStatus podHostIP", "10.0.0.1\n", f"{_TASK_NAME}.attemptStatus.podHostIP"),
        (f"{_TASK} attemptStatus podHostIP", "10.0.0.1\0", f"{_TASK_NAME}.attemptStatus.podHostIP"),
        (f"{_TASK} attemptStatus podUID", "a][b", f"{_TASK_NAME}.attemptStatus.podUID"),
    ],
)
def test_a_value_that_cannot_be_right_is_named(path: str, value: Any, field: str) -> None:
    assert reading(changed(path, value)).startswith(field)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("", ""),
        ("{", ""),
        ("[" * 200_000, ""),
        ("[]", ""),
        ("null", ""),
        ('{"ports": NaN}', ""),
        ({"ports": []}, ".ports"),
        ({"ports": {"ssh": 1}}, ".ports.ssh"),
        ({"ports": {"ssh": {}}}, ".ports.ssh.count"),
        ({"ports": {"ssh": {"count": 0}}}, ".ports.ssh.count"),
        ({"ports": {"ssh": {"count": "1"}}}, ".ports.ssh.count"),
        ({"ports": {"ssh": {"count": 1001}}}, ".ports.ssh.count"),
        ({"ports": {"s sh": {"count": 1}}}, ".ports.s sh"),
        ({"ports": {"ssh\n": {"count": 1}}}, ".ports.ssh\\n"),
        ({"schedulePortStart": 0, "ports": {}}, ".schedulePortStart"),
        ({"schedulePortStart": 20000, "schedulePortEnd": 20000, "ports": {}}, ".schedulePortEnd"),
        ({"schedulePortStart": 20000, "schedulePortEnd": 65537, "ports": {}}, ".schedulePortEnd"),
        ({"ssh": {"count": 1}, "http": {"count": 1, "start": 0}}, ".http.start"),
        ({"ssh": {"count": 1, "start": 65535}, "http": {"count": 1, "start": 1}}, ".ssh.start"),
        ({"tcp": {"count": 1, "start": 20000}}, ".ssh"),
    ],
)
def test_a_fault_in_a_port_spec_is_named(spec: Any, field: str) -> None:
    assert reading(with_spec(spec)).startswith(f"{_SPEC_NAME}{field}:")


def packed(content: bytes, end: int | None = None) -> str:
    """Gzip in base64, of which some may be cut off."""
    return base64.b64encode(gzip.compress(content, mtime=0)[:end]).decode()


_STATUSES = json.dumps([role_status("worker", WORKERS)]).encode()


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("not base64", ":"),
        ("ä", ":"),
        ("bm90IGd6aXA=", ":"),
        ("", ":"),
        (packed(_STATUSES, -1), ":"),
        (packed(_STATUSES, 40), ":"),
        (packed(_STATUSES).replace("w", "x"), ":"),
        (packed(b""), ":"),
        (packed(b"\xff"), ":"),
        (packed(b"{}"), ":"),
        (packed(b"[1]"), "[0]:"),
        (packed(_STATUSES.replace(b'"index": 1', b'"index": 0')), "[0].taskStatuses[1].index:"),
    ],
)
def test_a_fault_in_what_is_compressed_is_named(text: str, below: str) -> None:
    data = document(compressed=True)
    data["status"]["attemptStatus"]["taskRoleStatusesCompressed"] = text
    assert reading(data).startswith(f"status.attemptStatus.taskRoleStatusesCompressed{below}")


def in_its_bounds(make: Callable[[], Any]) -> str:
    """The message of what is wrong; it takes little memory beside the object."""
    data = make()
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    tracemalloc.start()
    try:
        message = reading(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(text) + 3 * MOST_BYTES
    return message


def test_what_is_much_larger_when_it_is_decompressed_is_refused() -> None:
    def bomb() -> dict[str, Any]:
        data = document(compressed=True)
        inside = packed(b" " * 50_000_000)
        data["status"]["attemptStatus"]["taskRoleStatusesCompressed"] = inside
        return data

    assert in_its_bounds(bomb).startswith("status.attemptStatus.taskRoleStatusesCompressed:")


def test_an_object_that_is_too_large_is_refused() -> None:
    assert in_its_bounds(lambda: b" " * 50_000_000).startswith("document:")


def test_more_ports_than_anybody_schedules_are_refused_before_they_are_calculated() -> None:
    many = {f"label{number}": 1000 for number in range(1000)}
    roles = [task_role(f"role{number}", 10, hashed(**many)) for number in range(2)]
    message = in_its_bounds(lambda: framework_object(roles, []))
    assert message.startswith("spec.taskRoles[0]:")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 200_000, b'{"metadata": 1e999}', b"{}{}"]
)
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    assert reading(text).startswith(("document:", "metadata:"))


def test_a_number_of_a_million_digits_is_refused_as_short_as_any() -> None:
    text = json.dumps(changed("spec taskRoles 0 taskNumber", 1.5)).replace("1.5", "1" * 1_000_000)
    began = time.process_time()
    assert len(reading(text.encode())) <= 1100
    assert time.process_time() - began < 5


_TEXT = st.text("a0-.:\x1b\n\0é\ud800", max_size=5)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


def paths(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in JSON data."""
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(each for key, value in children for each in paths(value, (*path, key)))]


_PATHS = {compressed: paths({"": document(compressed=compressed)})[1:] for compressed in (False, True)}


@settings(max_examples=150)
@given(data=st.data(), compressed=st.booleans())
def test_whatever_stands_anywhere_is_read_or_named(data: st.DataObject, *, compressed: bool) -> None:
    root: Any = {"": document(compressed=compressed)}
    *above, last = data.draw(st.sampled_from(_PATHS[compressed]))
    place = root
    for key in above:
        place = place[key]
    place[last] = data.draw(_JSON)
    try:
        framework = read_framework(json.dumps(root[""]).encode())
    except BadFramework as error:
        assert str(error).isprintable()  # noqa: PT017 - it need not be raised
    else:
        assert all(isinstance(name, str) for name in framework.missing())


@given(st.binary() | st.builds(lambda cut: json.dumps(document()).encode()[:cut], st.integers(0, 3000)))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        read_framework(text)
    except BadFramework as error:
        assert str(error).isprintable()  # noqa: PT017 - as above


@pytest.mark.parametrize("piece", [b"{},", b"[],", b'{"":0},', b"1.5,", b'"ab",'])
def test_a_framework_of_nothing_but_values_is_refused_before_it_takes_memory(piece: bytes) -> None:
    data = b"[" + piece * (MOST_BYTES // len(piece) - 1) + b"0]"
    tracemalloc.start()
    try:
        assert "at most" in reading(data)
        assert tracemalloc.get_traced_memory()[1] < 2 * MOST_BYTES
    finally:
        tracemalloc.stop()
