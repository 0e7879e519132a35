"""The stand-in for an API server does what the tests of others rely on."""

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.kubernetes.api_server import ApiServer, Fault

MAPS = "/api/v1/namespaces/team-a/configmaps"
PODS = "/api/v1/namespaces/team-a/pods"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team-a/jobsets"


def _map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def _opened(server: ApiServer, path: str) -> Any:
    return urllib.request.urlopen(server.url + path, timeout=30)  # noqa: S310 - our own server


def _ask(server: ApiServer, path: str, method: str = "GET", document: Any = None) -> tuple[int, Any]:
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(server.url + path, data, method=method)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_objects_are_created_read_changed_and_removed_with_what_they_own(server: ApiServer) -> None:
    status, owner = _ask(server, MAPS, "POST", _map("owner"))
    assert status == 201
    assert _ask(server, MAPS, "POST", _map("owner"))[0] == 409
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    server.put(MAPS, _map("owned", ownerReferences=[reference]))
    changed = _ask(server, f"{MAPS}/owner", "PATCH", {"data": {"a": "b"}})[1]
    assert changed["data"] == {"a": "b"}
    assert int(changed["metadata"]["resourceVersion"]) > int(owner["metadata"]["resourceVersion"])
    assert _ask(server, f"{MAPS}/owner", "DELETE")[0] == 200
    assert _ask(server, f"{MAPS}/owned")[0] == 404
    assert server.counts["create", "/api/v1/configmaps"] == 2


def test_a_dry_run_stores_nothing(server: ApiServer) -> None:
    assert _ask(server, f"{MAPS}?dryRun=All", "POST", _map("one"))[0] == 201
    assert server.get(f"{MAPS}/one") is None


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("labelSelector=a%3D1", ["one"]),
        ("labelSelector=a", ["one", "two"]),
        ("labelSelector=!a", ["three"]),
        ("labelSelector=a%20in%20(1,2),b%3Dx", ["two"]),
        ("labelSelector=a!%3D1", ["three", "two"]),
        ("fieldSelector=metadata.name%3Dtwo", ["two"]),
    ],
)
def test_lists_are_selected(server: ApiServer, query: str, names: list[str]) -> None:
    server.put(MAPS, _map("one", labels={"a": "1"}))
    server.put(MAPS, _map("two", labels={"a": "2", "b": "x"}))
    server.put(MAPS, _map("three"))
    items = _ask(server, f"{MAPS}?{query}")[1]["items"]
    assert [item["metadata"]["name"] for item in items] == names


def test_a_list_comes_in_pages(server: ApiServer) -> None:
    for number in range(5):
        server.put(MAPS, _map(f"map-{number}"))
    found, query = [], "?limit=2"
    while query:
        page = _ask(server, MAPS + query)[1]
        found += [item["metadata"]["name"] for item in page["items"]]
        more = page["metadata"].get("continue")
        query = f"?limit=2&continue={more}" if more else ""
    assert found == [f"map-{number}" for number in range(5)]
    assert server.counts["list", "/api/v1/configmaps"] == 3


def test_a_watch_tells_what_happens_and_ends(server: ApiServer) -> None:
    version = _ask(server, MAPS)[1]["metadata"]["resourceVersion"]
    events: list[Any] = []
    first = threading.Event()

    def watch() -> None:
        with _opened(server, f"{MAPS}?watch=true&resourceVersion={version}") as answer:
            for line in answer:
                events.append(json.loads(line))
                first.set()

    thread = threading.Thread(target=watch)
    thread.start()
    server.put(MAPS, _map("one"))
    assert first.wait(30)
    server.remove(f"{MAPS}/one")
    server.break_streams(None)
    thread.join(30)
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]


def test_a_watch_from_before_what_is_known_is_too_old(server: ApiServer) -> None:
    server.put(MAPS, _map("one"))
    server.compact()
    event = _ask(server, f"{MAPS}?watch=true&resourceVersion=1")[1]
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_group_that_is_not_installed_is_not_found(server: ApiServer) -> None:
    server.installed.remove("jobset.x-k8s.io/v1alpha2")
    assert _ask(server, JOBSETS) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", b"one\ntwo\nthr"),
        ("tailLines=2&", b"two\nthr"),
        ("tailLines=0&", b""),
        ("limitBytes=5&", b"one\nt"),
        ("follow=true&", b"one\ntwo\nthr"),
    ],
)
def test_logs_are_read(server: ApiServer, query: str, text: bytes) -> None:
    server.put(PODS, {"metadata": {"name": "pod"}})
    server.log("pod", "app", b"one\ntwo\nthr", ended=True)
    with _opened(server, f"{PODS}/pod/log?{query}container=app") as answer:
        assert answer.read() == text


def test_a_log_that_is_not_there_yet_is_refused(server: ApiServer) -> None:
    assert _ask(server, f"{PODS}/pod/log?container=app")[0] == 404
    server.put(PODS, {"metadata": {"name": "pod"}})
    assert _ask(server, f"{PODS}/pod/log?container=app")[0] == 400


def test_a_fault_meets_what_it_is_armed_for(server: ApiServer) -> None:
    server.arm(Fault(429, headers={"Retry-After": "7"}), "list", "configmaps")
    assert _ask(server, PODS)[0] == 200
    assert _ask(server, MAPS)[0] == 429
    assert _ask(server, MAPS)[0] == 200


def test_a_token_is_asked_for(server: ApiServer) -> None:
    server.tokens.add("right")
    assert _ask(server, MAPS)[0] == 401
    server.forbidden.add(("list", "configmaps"))
    server.tokens.clear()
    assert _ask(server, MAPS)[0] == 403
