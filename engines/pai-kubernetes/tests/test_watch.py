"""Watching a collection: what it knows in the end is what there is, whatever goes wrong on the way."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from pai_kubernetes.api import paths, watch
from pai_kubernetes.api.watch import Watch
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.played_cluster import api_of, be_quick

MAPS = paths.config_maps("team-a")
KIND = "/api/v1/configmaps"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    be_quick(monkeypatch)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


class Watched:
    """A watch, and what it tells."""

    def __init__(self, server: ApiServer, **options: Any) -> None:
        self.api = api_of(server)
        self.told: list[tuple[str, str]] = []
        self._changed = threading.Condition()
        self.watch = Watch(self.api, MAPS, on_change=self._on_change, **options)

    def _on_change(self, kind: str, document: dict[str, Any]) -> None:
        with self._changed:
            self.told.append((kind, document["metadata"]["name"] if document else ""))
            self._changed.notify_all()

    def wait(self, test: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(test, 60), self.told

    def has(self, *names: str) -> None:
        self.wait(lambda: sorted(self.watch.objects) == sorted(names))

    def count(self, kind: str) -> int:
        return sum(each == kind for each, _ in self.told)


@contextmanager
def watching(server: ApiServer, **options: Any) -> Iterator[Watched]:
    watched = Watched(server, **options)
    watched.watch.start()
    with closing(watched.watch):
        yield watched


def _map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def test_all_objects_are_known_and_each_change_is_told(server: ApiServer) -> None:
    server.put(MAPS, _map("one"))
    with watching(server) as watched:
        watched.has("one")
        server.put(MAPS, _map("two"))
        server.change(f"{MAPS}/one", {"data": {"a": "b"}})
        server.remove(f"{MAPS}/two")
        watched.wait(lambda: watched.count("DELETED") == 1)
        assert watched.told == [("SYNCED", ""), ("ADDED", "two"), ("MODIFIED", "one"), ("DELETED", "two")]
        assert watched.watch.objects["one"]["data"] == {"a": "b"}
        assert set(watched.watch.objects) == {"one"}
    assert (server.counts["list", KIND], server.counts["watch", KIND]) == (1, 1)


def test_a_mapping_that_was_taken_stays_as_it_is(server: ApiServer) -> None:
    server.put(MAPS, _map("one"))
    with watching(server) as watched:
        watched.has("one")
        taken = watched.watch.objects
        server.put(MAPS, _map("two"))
        watched.has("one", "two")
        assert set(taken) == {"one"}


def test_who_has_set_which_field_is_not_kept(server: ApiServer) -> None:
    fields = [{"manager": "kubelet", "fieldsV1": {}}]
    server.put(MAPS, _map("one", managedFields=fields))
    with watching(server) as watched:
        watched.has("one")
        server.put(MAPS, _map("two", managedFields=fields))
        watched.has("one", "two")
        found = watched.watch.objects.values()
        assert not any("managedFields" in each["metadata"] for each in found)


def test_it_is_told_of_what_is_selected_only(server: ApiServer) -> None:
    with watching(server, selector="run=mine") as watched:
        watched.wait(lambda: watched.count("SYNCED") == 1)
        server.put(MAPS, _map("other"))
        server.put(MAPS, _map("one", labels={"run": "mine"}))
        watched.has("one")
        server.change(f"{MAPS}/one", {"metadata": {"labels": None}})
        watched.has()
        assert ("ADDED", "other") not in watched.told


@pytest.mark.parametrize("last", [b"", b'{"type": "ADDED", "object": {"metadata": {"na', None])
def test_a_watch_that_is_cut_goes_on_where_it_was(server: ApiServer, last: bytes | None) -> None:
    with watching(server) as watched:
        server.put(MAPS, _map("one"))
        watched.has("one")
        server.break_streams(last)
        server.put(MAPS, _map("two"))
        watched.has("one", "two")
        assert watched.count("SYNCED") == 1


def test_a_watch_from_a_version_that_is_too_old_lists_again(server: ApiServer) -> None:
    server.put(MAPS, _map("one"))
    # The first watch is refused only after the past is gone.
    server.arm(Fault(silent=True), "watch")
    with watching(server) as watched:
        watched.has("one")
        server.wait_for(lambda: server.counts["watch", KIND] == 1)
        server.remove(f"{MAPS}/one")
        server.put(MAPS, _map("two"))
        server.compact()
        server.break_streams()
        watched.has("two")
        assert watched.count("SYNCED") == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault(410, reason="Expired"),
        Fault(429, headers={"Retry-After": "0"}),
        Fault(500),
        Fault(503),
        Fault(hang_up=True),
        Fault(cut=30),
        Fault(endless=b"a" * 65536),
        Fault(endless=b"{}{}\n"),
        Fault(endless=b"[1]\n"),
    ],
)
def test_it_gets_over_a_fault(server: ApiServer, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_OF_EVENT", 1 << 20)
    server.arm(fault, "watch", times=4)
    with watching(server) as watched:
        watched.wait(lambda: watched.count("SYNCED") >= 1)
        server.put(MAPS, _map("one"))
        watched.has("one")
        server.remove(f"{MAPS}/one")
        watched.has()
        assert watched.watch.error is None


def test_a_watch_that_says_nothing_is_opened_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SILENCE", 0.2)
    server.arm(Fault(silent=True), "watch")
    with watching(server) as watched:
        watched.wait(lambda: watched.count("SYNCED") == 1)
        server.put(MAPS, _map("one"))
        watched.has("one")


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_what_it_cannot_get_over_is_told(server: ApiServer, verb: str) -> None:
    server.forbidden.add((verb, "configmaps"))
    with watching(server) as watched:
        watched.wait(lambda: watched.count("FAILED") == 1)
        assert watched.watch.error
        assert (watched.watch.error.status, watched.told[-1]) == (403, ("FAILED", ""))


def test_it_makes_no_call_once_it_is_closed(server: ApiServer) -> None:
    with watching(server) as watched:
        watched.wait(lambda: watched.count("SYNCED") == 1)
    server.put(MAPS, _map("one"))
    assert watched.told == [("SYNCED", "")]
