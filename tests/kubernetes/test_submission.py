"""Submitting a run: all of its objects, or none."""

from collections.abc import Iterator
from typing import Any

import pytest

from pai_kubernetes.api import paths
from pai_kubernetes.run.submission import SUFFIX_LETTERS, submit
from pai_runtime.engines.cluster import Manifests
from pai_runtime.runs.cannot_run import CannotRun
from tests.kubernetes import run_objects
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import NAMESPACE, api_of, be_quick

JOBSETS, SECRETS, MAPS = "jobsets.jobset.x-k8s.io", "secrets", "configmaps"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    be_quick(monkeypatch)
    with ApiServer() as running:
        yield running


def _object(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def _render(suffix: str) -> Manifests:
    name = f"demo-{suffix}"
    jobset = run_objects.jobset()
    jobset["metadata"] = {**jobset["metadata"], "name": name}
    del jobset["metadata"]["uid"]
    maps = [_object("ConfigMap", f"{name}-job"), _object("ConfigMap", f"{name}-code")]
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
    assert _left(server) == [name, f"{name}-secrets", f"{name}-code", f"{name}-job"]


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


def test_a_jobset_of_which_no_answer_came_is_taken_back(server: ApiServer) -> None:
    server.arm(Fault(cut=10), "create", JOBSETS)
    with pytest.raises(CannotRun):
        submit(api_of(server), _render)
    assert _left(server) == []


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
