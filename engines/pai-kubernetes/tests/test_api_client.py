"""Requests to an API server: what is asked, what comes of each fault, and what people are told."""

import threading
from pathlib import Path
from typing import Any

import pytest

from pai_kubernetes.api import client, paths
from pai_kubernetes.api.access import Access, Fixed, Login
from pai_kubernetes.api.client import Api
from pai_kubernetes.api.errors import ApiError, Cause
from pai_network.authorization import basic
from tests.kubernetes.api_server import WEBHOOK_AWAY, ApiServer, Fault, tls_server
from tests.kubernetes.played_cluster import be_quick
from tests.proxy_server import ProxyServer

JOBSETS = paths.jobsets("team-a")
MAPS = paths.config_maps("team-a")
PODS = paths.pods("team-a")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    be_quick(monkeypatch)


def _access(server: ApiServer, **given: Any) -> Access:
    return Access(server.url, "jane", "a kubeconfig", server.namespace, **given)


@pytest.fixture
def api(server: ApiServer) -> Api:
    return Api(_access(server), "", "lab")


def _map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _error(call: Any, *args: Any, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call(*args, **options)
    return caught.value


def test_objects_are_created_read_changed_and_deleted(server: ApiServer, api: Api) -> None:
    created = api.create(MAPS, _map("one"))
    assert created["metadata"]["uid"]
    assert api.patch(f"{MAPS}/one", {"data": {"a": "b"}})["data"] == {"a": "b"}
    assert api.get(paths.config_maps("team-a", "one"))["data"] == {"a": "b"}
    api.delete(f"{MAPS}/one", options={"propagationPolicy": "Background"})
    assert server.get(f"{MAPS}/one") is None
    assert (api.namespace, api.label, api.requests) == ("team-a", "lab", 4)


def test_a_creation_is_checked_strictly_and_may_be_a_dry_run(server: ApiServer, api: Api) -> None:
    api.create(MAPS, _map("one"), dry_run=True)
    assert server.get(f"{MAPS}/one") is None
    assert server.requests[0].query == {"fieldValidation": "Strict", "dryRun": "All"}


def test_a_list_is_read_in_pages(server: ApiServer, api: Api) -> None:
    for number in range(5):
        server.put(MAPS, _map(f"map-{number}"))
    listing = api.list(MAPS, limit=2)
    assert [each["metadata"]["name"] for each in listing.items] == [f"map-{number}" for number in range(5)]
    assert listing.version == str(server.objects.version)
    assert api.requests == 3


def test_a_list_whose_pages_are_gone_is_read_again(server: ApiServer, api: Api) -> None:
    for number in range(3):
        server.put(MAPS, _map(f"map-{number}"))
    server.arm(Fault(), "list")
    server.arm(Fault(410, reason="Expired"), "list")
    assert len(api.list(MAPS, limit=2).items) == 3


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429, headers={"Retry-After": "0"}),
        Fault(500),
        Fault(503),
        Fault(hang_up=True),
        Fault(cut=5),
    ],
)
def test_a_read_is_repeated(server: ApiServer, api: Api, fault: Fault) -> None:
    server.put(MAPS, _map("one"))
    server.arm(fault, times=2)
    assert api.get(f"{MAPS}/one")["metadata"]["name"] == "one"
    assert api.requests == 3


def test_a_creation_is_repeated_only_when_nothing_can_have_been_created(server: ApiServer, api: Api) -> None:
    for name, fault in (("one", Fault(429)), ("other", WEBHOOK_AWAY)):
        server.arm(fault, times=2)
        before = api.requests
        api.create(MAPS, _map(name))
        assert api.requests == before + 3
    for fault in (Fault(500), Fault(hang_up=True), Fault(cut=5)):
        server.arm(fault)
        before = api.requests
        assert _error(api.create, MAPS, _map("two")).may_pass
        assert api.requests == before + 1


@pytest.mark.parametrize("fault", [Fault(429), WEBHOOK_AWAY, Fault(500), Fault(hang_up=True), Fault(cut=5)])
def test_a_dry_run_is_repeated_whatever_may_have_come_of_it(
    server: ApiServer, api: Api, fault: Fault
) -> None:
    server.arm(fault, times=2)
    api.create(MAPS, _map("one"), dry_run=True)
    assert api.requests == 3
    assert server.list(MAPS) == []


def test_what_refuses_connections_is_asked_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SECONDS", 0.1)
    with ApiServer() as gone:
        access = _access(gone)
    api = Api(access, "", "lab")
    error = _error(api.create, MAPS, _map("one"))
    assert (error.status, error.may_pass) == (0, True)
    assert api.requests > 1


@pytest.mark.parametrize("fault", [Fault(silent=True), Fault(endless=b" ")])
def test_no_answer_takes_longer_than_the_deadline_or_more_than_the_bound(
    server: ApiServer, api: Api, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SECONDS", 0.2)
    monkeypatch.setattr(client, "MOST_BYTES", 1 << 20)
    server.arm(fault, times=100)
    assert _error(api.get, f"{MAPS}/one").status in (0, 404)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (Fault(401), 401, ["jane", "a kubeconfig", "log in again"]),
        (Fault(403, "Forbidden", "no"), 403, ["cannot create jobsets.jobset.x-k8s.io in namespace team-a"]),
        (Fault(403), 403, ["deploy/kubernetes/rbac.yaml", "jane"]),
        (Fault(409, "AlreadyExists", "already exists"), 409, ["already exists"]),
        (Fault(302, headers={"Location": "http://elsewhere.example"}), 302, ["redirect"]),
        (Fault(body=b"<html>"), 0, ["text/plain", "URL"]),
        (Fault(body=b"[]"), 0, ["URL"]),
        (Fault(body=b"[" * 100_000), 0, ["URL"]),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    server: ApiServer, api: Api, fault: Fault, status: int, words: list[str]
) -> None:
    server.arm(fault)
    document = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "one"}}
    error = _error(api.create, JOBSETS, document)
    assert (error.status, error.reason, error.may_pass) == (status, fault.reason or error.reason, False)
    assert all(word in str(error) for word in ["lab", *words])


def test_a_missing_right_is_named(server: ApiServer, api: Api) -> None:
    server.forbidden.add(("list", "jobsets.jobset.x-k8s.io"))
    error = _error(api.list, JOBSETS)
    assert (error.status, error.reason) == (403, "Forbidden")
    assert "cannot list jobsets.jobset.x-k8s.io in namespace team-a" in str(error)


def test_that_jobset_is_not_installed_is_told_from_a_run_that_is_not_there(
    server: ApiServer, api: Api
) -> None:
    missing = _error(api.get, f"{JOBSETS}/one")
    server.installed.remove("jobset.x-k8s.io/v1alpha2")
    uninstalled = _error(api.get, f"{JOBSETS}/one")
    assert (missing.status, uninstalled.status) == (404, 404)
    assert "docs/kubernetes.md" not in str(missing)
    assert "docs/kubernetes.md" in str(uninstalled)


def test_what_is_wrong_with_fields_is_kept(server: ApiServer, api: Api) -> None:
    server.admit = lambda _target, _object: [{"field": "data", "message": "too\x1b[31m large"}]
    error = _error(api.create, MAPS, _map("one"), dry_run=True)
    assert (error.status, error.reason) == (422, "Invalid")
    assert error.causes == (Cause("data", "too\\x1b[31m large"),)
    assert "\x1b" not in str(error)


def test_a_login_that_was_refused_is_renewed_once(server: ApiServer) -> None:
    server.tokens = {"second"}

    class Renewing:
        asked = 0

        def login(self) -> Login:
            return Login(authorization="Bearer first")

        def renewed(self, refused: Login) -> Login:
            assert refused == self.login()
            self.asked += 1
            return Login(authorization="Bearer second")

    credentials = Renewing()
    api = Api(_access(server, credentials=credentials), "", "lab")
    api.create(MAPS, _map("one"))
    assert credentials.asked == 1
    server.tokens = {"third"}
    assert _error(api.create, MAPS, _map("two")).status == 401


def test_no_secret_is_in_what_people_see(server: ApiServer) -> None:
    server.tokens = {"right"}
    access = _access(server, credentials=Fixed(Login(authorization="Bearer s3cret-token")))
    api = Api(access, "", "lab")
    error = _error(api.get, f"{MAPS}/one")
    assert error.status == 401
    assert "s3cret" not in f"{error} {access!r}"


@pytest.mark.parametrize("tls", [True, False])
def test_a_proxy_is_used_and_told_who_asks(
    tls: bool,  # noqa: FBT001 - a column of the table
    tmp_path: Path,
) -> None:
    login = basic("jane", "word")
    with (
        tls_server(tmp_path) if tls else ApiServer() as server,
        ProxyServer({"cluster.example": server.port}, login) as proxy,
    ):
        authority = server.authority.pem if server.authority else b""
        access = Access(
            f"{server.url.partition(':')[0]}://cluster.example",
            "jane",
            "a kubeconfig",
            authority=authority,
            server_name="127.0.0.1" if tls else "",
            proxy=f"http://jane:word@{proxy.host}:{proxy.port}",
        )
        api = Api(access, "team-a", "lab")
        assert api.list(MAPS).items == []
        assert [each.headers["Proxy-Authorization"] for each in proxy.requests] == [login]


def test_two_thousand_objects_are_few_requests(server: ApiServer, api: Api) -> None:
    for number in range(2000):
        server.put(MAPS, _map(f"map-{number}"))
    assert len(api.list(MAPS).items) == 2000
    assert api.requests == 4


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (paths.jobsets("team-a", "run"), "jobsets.jobset.x-k8s.io run in namespace team-a"),
        (paths.pod_log("team-a", "pod"), "pods/log pod in namespace team-a"),
        (paths.jobs("team-a"), "jobs.batch in namespace team-a"),
        (paths.nodes("a/b"), "nodes a/b"),
        (paths.workloads("a", "v1beta1"), "workloads.kueue.x-k8s.io in namespace a"),
        (paths.api_group("jobset.x-k8s.io"), ".jobset.x-k8s.io"),
    ],
)
def test_a_path_is_named_in_messages(path: str, shown: str) -> None:
    assert str(paths.target_of(path)) == shown


def test_an_open_answer_is_read_as_it_comes(server: ApiServer, api: Api) -> None:
    server.put(PODS, {"metadata": {"name": "pod"}})
    server.log("pod", "app", b"one\n")
    with api.open(paths.pod_log("team-a", "pod"), container="app", follow="true") as stream:
        assert stream.read(100) == b"one\n"
        server.log("pod", "app", b"two\n")
        assert stream.read(2) == b"tw"
        assert stream.read(100) == b"o\n"


@pytest.mark.parametrize("tls", [True, False])
def test_closing_an_open_answer_ends_a_read_in_another_thread(
    tls: bool,  # noqa: FBT001 - a column of the table
    tmp_path: Path,
) -> None:
    with tls_server(tmp_path) if tls else ApiServer() as server:
        authority = server.authority.pem if server.authority else b""
        api = Api(_access(server, authority=authority), "", "lab")
        server.put(PODS, {"metadata": {"name": "pod"}})
        server.log("pod", "app", b"one\n")
        with api.open(paths.pod_log("team-a", "pod"), container="app", follow="true") as stream:
            assert stream.read(100) == b"one\n"
            ended: list[bytes] = []
            reader = threading.Thread(target=lambda: ended.append(stream.read(100)))
            reader.start()
            stream.close()
            reader.join(60)
            assert ended == [b""]


def test_an_open_answer_that_breaks_off_is_no_end(server: ApiServer, api: Api) -> None:
    server.put(PODS, {"metadata": {"name": "pod"}})
    server.log("pod", "app", b"one\n")
    server.arm(Fault(cut=2))
    with api.open(paths.pod_log("team-a", "pod"), container="app", follow="true") as stream:
        assert stream.read(100) == b"on"
        assert _error(stream.read, 100).may_pass
