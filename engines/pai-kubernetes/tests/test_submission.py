"""Submitting a run: all of its objects, or none."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pai_kubernetes.api import client, paths
from pai_kubernetes.api.access import Access, Login
from pai_kubernetes.api.client import Api
from pai_kubernetes.run import submission
from pai_kubernetes.run.submission import SUFFIX_LETTERS, Manifests, submit
from pai_runtime.runs.errors import CannotRun, ClusterError, MayBeLeft
from tests.kubernetes import run_objects
from tests.kubernetes.api_objects import Target
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import NAMESPACE, api_of, be_quick

JOBSETS, SECRETS, MAPS = "jobsets.jobset.x-k8s.io", "secrets", "configmaps"
DELETED = "delete", "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


def _object(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def _render(suffix: str) -> Manifests:
    name = f"demo-{suffix}"
    jobset = run_objects.jobset()
    jobset["metadata"] = {**jobset["metadata"], "name": name}
    del jobset["metadata"]["uid"]
    maps = [_object("ConfigMap", f"{name}-{part}") for part in ("job", "code-0", "code-1")]
    return Manifests([jobset, *maps], [_object("Secret", f"{name}-secrets")])


def _left(server: ApiServer) -> list[str]:
    found = (paths.jobsets(NAMESPACE), paths.secrets(NAMESPACE), paths.config_maps(NAMESPACE))
    return [each["metadata"]["name"] for path in found for each in server.list(path)]


def test_the_jobset_comes_first_and_owns_all_others(server: ApiServer) -> None:
    name = submit(api_of(server), _render)
    assert [request.kind.rpartition("/")[2] for request in server.requests] == [
        "jobsets",
        "secrets",
        "configmaps",
        "configmaps",
        "configmaps",
    ]
    jobset = server.get(paths.jobsets(NAMESPACE, name))
    assert jobset is not None
    for each in (*server.list(paths.secrets(NAMESPACE)), *server.list(paths.config_maps(NAMESPACE))):
        (owner,) = each["metadata"]["ownerReferences"]
        assert owner["uid"] == jobset["metadata"]["uid"]
        assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("JobSet", False, False)


def test_names_differ_and_are_of_letters_that_can_be_read_out(server: ApiServer) -> None:
    names = {submit(api_of(server), _render) for _ in range(5)}
    assert len(names) == 5
    assert all(set(name.removeprefix("demo-")) <= set(SUFFIX_LETTERS) for name in names)


@pytest.mark.parametrize("resource", [JOBSETS, SECRETS])
def test_a_name_that_is_taken_is_followed_by_another_one(server: ApiServer, resource: str) -> None:
    server.arm(Fault(409, "AlreadyExists", "already exists"), "create", resource, times=2)
    name = submit(api_of(server), _render)
    assert _left(server) == [name, f"{name}-secrets", f"{name}-code-0", f"{name}-code-1", f"{name}-job"]


def test_names_are_not_tried_for_ever(server: ApiServer) -> None:
    server.arm(Fault(409, "AlreadyExists", "already exists"), "create", JOBSETS, times=100)
    with pytest.raises(CannotRun):
        submit(api_of(server), _render)
    assert server.counts["create", "/apis/jobset.x-k8s.io/v1alpha2/jobsets"] == 5


@pytest.mark.parametrize(
    ("resource", "fault"),
    [
        (JOBSETS, Fault(403, "Forbidden", "not allowed")),
        (JOBSETS, Fault(500, "InternalError", "a webhook has failed")),
        (SECRETS, Fault(403, "Forbidden", "not allowed")),
        (MAPS, Fault(422, "Invalid", "too large")),
        (MAPS, Fault(500, "InternalError", "etcd")),
    ],
)
def test_where_one_object_is_refused_nothing_is_left(server: ApiServer, resource: str, fault: Fault) -> None:
    server.arm(fault, "create", resource)
    with pytest.raises(CannotRun):
        submit(api_of(server), _render)
    assert _left(server) == []


@pytest.mark.parametrize("fault", [Fault(403, "Forbidden", "a quota"), Fault(hang_up=True)])
def test_where_the_last_part_of_the_code_is_refused_nothing_is_left(server: ApiServer, fault: Fault) -> None:
    server.arm(Fault(), "create", MAPS, times=2)
    server.arm(fault, "create", MAPS)
    with pytest.raises(CannotRun):
        submit(api_of(server), _render)
    assert server.counts["create", "/api/v1/configmaps"] == 3
    assert _left(server) == []


def test_a_jobset_of_which_no_answer_came_is_taken_back(server: ApiServer) -> None:
    server.arm(Fault(cut=10), "create", JOBSETS)
    with pytest.raises(CannotRun):
        submit(api_of(server), _render)
    assert _left(server) == []


class _NoLogin:
    """Credentials of a plugin that fails: at once, or when the server has refused what it gave."""

    def __init__(self, first: Login | None) -> None:
        self._first = first

    def login(self) -> Login:
        if self._first is None:
            raise ClusterError("the plugin has failed")
        return self._first

    def renewed(self, refused: Login) -> Login:
        raise ClusterError(f"the plugin has failed after {refused}")


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({"server": "http://127.0.0.1:1"}, None),
        ({"server": "http://"}, 1),
        ({"authority": b"no certificate", "server": "https://127.0.0.1:1"}, 1),
        ({"credentials": _NoLogin(None)}, 0),
        ({"credentials": _NoLogin(Login("Bearer old"))}, 1),
    ],
    ids=lambda given: repr(given)[:50],
)
def test_where_nothing_was_created_nothing_is_said_to_be_left(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, Any], times: int | None
) -> None:
    """`times`: how many requests there are; None: more than one."""
    be_quick(monkeypatch)
    if times is None:
        monkeypatch.setattr(client, "SECONDS", 0.1)
    server.tokens = {"another"}
    access = replace(Access(server.url, "jane", "a kubeconfig", server.namespace), **changes)
    api = Api(access, "", "lab")
    with pytest.raises(CannotRun) as raised:
        submit(api, _render)
    assert not isinstance(raised.value, MayBeLeft)
    assert api.requests == times if times is not None else api.requests > 1
    assert not server.counts[DELETED]


def test_what_cannot_be_taken_back_is_named(server: ApiServer) -> None:
    server.forbidden.add(("delete", JOBSETS))
    server.arm(Fault(403, "Forbidden", "not allowed"), "create", SECRETS)
    with pytest.raises(CannotRun) as raised:
        submit(api_of(server), _render)
    (left,) = _left(server)
    assert left in str(raised.value)


def test_an_interrupted_submission_leaves_nothing(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    api = api_of(server)
    create = api.create

    def interrupted(path: str, document: Any, **options: Any) -> Any:
        if document["kind"] == "Secret":
            raise KeyboardInterrupt
        return create(path, document, **options)

    monkeypatch.setattr(api, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        submit(api, _render)
    assert _left(server) == []


def _interrupt_and_hold(server: ApiServer, *until: Callable[[], bool]) -> None:
    """Interrupt whoever creates a JobSet, again after each of `until`, and create it only then."""

    def admit(_target: Target, _document: object) -> Sequence[Mapping[str, str]]:
        for test in until:
            os.kill(os.getpid(), signal.SIGINT)
            assert server.changed.wait_for(test, 60)  # its lock is held
        return ()

    server.admit = admit


def test_a_jobset_that_is_created_after_all_is_taken_back(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "_PAUSE", 0.001)
    _interrupt_and_hold(server, lambda: server.counts[DELETED] > 1)
    with pytest.raises(KeyboardInterrupt):
        submit(api_of(server), _render)
    assert server.counts[DELETED] > 1
    assert _left(server) == []


def test_a_jobset_that_may_be_created_yet_is_named(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "_LATE", 0.0)
    server.arm(Fault(hang_up=True), "create", JOBSETS)
    with pytest.raises(MayBeLeft) as raised:
        submit(api_of(server), _render)
    assert server.requests[0].document["metadata"]["name"] in str(raised.value)
    assert not raised.value.interrupted


def test_a_second_interrupt_ends_it_at_once_and_names_the_jobset(server: ApiServer) -> None:
    _interrupt_and_hold(server, lambda: server.counts[DELETED] > 0, server.ended.is_set)
    with pytest.raises(MayBeLeft) as raised:
        submit(api_of(server), _render)
    assert server.requests[0].document["metadata"]["name"] in str(raised.value)
    assert raised.value.interrupted
