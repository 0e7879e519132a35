"""What OpenPAI's own servers were seen to reply holds on the stand-in for them, too.

The tables are for a real server as well, one without HiveDScheduler: `PAI_OPENPAI_URL` names it, with
`/rest-server` at its end behind a portal, and `PAI_OPENPAI_USERS` two users, none of them an
administrator: `alice:PASSWORD,bob.x:PASSWORD`. Their jobs stay there for ever.
"""

import contextlib
import http.client
import json
import os
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.openpai.hived import Quota
from tests.openpai.log_manager import rotate
from tests.openpai.rest_server import Fault, OpenpaiServer
from tests.openpai.submission import MOST_BYTES

_JOB = """\
protocolVersion: 2
name: NAME
type: job
prerequisites:
  - {name: img, type: dockerimage, uri: "python:3.12"}
parameters: {lr: 0.10}
secrets:
  word: hidden-word
taskRoles:
  ps_server:
    instances: 1
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 512, gpu: 0}
    commands: [COMMANDS]
"""
_YAML, _JSON = "text/yaml", "application/json"


@dataclass(frozen=True)
class _Target:
    """A server, its users, and the name of a job of the first of them."""

    url: str
    users: Mapping[str, str]
    job: str = ""

    def text(self, pattern: str) -> str:
        """Put the users' names and passwords, and the job's name, into a request of a table."""
        (owner, password), (other, _) = self.users.items()
        for word, value in (("OWNER", owner), ("PASSWORD", password), ("OTHER", other), ("JOB", self.job)):
            pattern = pattern.replace(word, value)
        return pattern

    def ask(
        self, method: str, path: str, body: str | None = None, kind: str = _JSON, token: str | None = ""
    ) -> tuple[int, Any]:
        """`token`: none for the owner's own."""
        headers = {} if body is None else {"Content-Type": kind}
        if token is not None:
            headers["Authorization"] = f"Bearer {token or self.token()}"
        data = None if body is None else body.encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - one's own
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
                text, status = reply.read(), reply.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        return status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    def token(self, which: int = 0) -> str:
        user, password = list(self.users.items())[which]
        form = json.dumps({"username": user, "password": password})
        status, document = self.ask("POST", "/api/v2/authn/basic/login", form, token=None)
        assert status == 200
        return self.stored(document["token"])

    def stored(self, token: str) -> str:
        """A real server takes a token only a moment after it has made it."""
        for _ in range(100):
            if self.ask("GET", "/api/v2/tokens/check", token=token)[0] == 200:
                break
        return token

    def submit(self, name: str, commands: str = "exit 0", changes: Mapping[str, str] | None = None) -> Any:
        text = _JOB.replace("NAME", name).replace("COMMANDS", json.dumps(commands))
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        return self.ask("POST", "/api/v2/jobs", text, _YAML)


@pytest.fixture
def server(openpai_server: OpenpaiServer) -> OpenpaiServer:
    return openpai_server


def _target(server: OpenpaiServer) -> _Target:
    users = {name: server.cluster.users[name].password for name in ("alice", "bob.x")}
    return _Target(f"{server.url}/rest-server", users)


@pytest.fixture
def cluster(server: OpenpaiServer) -> _Target:
    return _target(server)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Target]:
    """A server on which a job waits: the stand-in, or the one that the environment names."""
    with contextlib.ExitStack() as stack:
        if url := os.environ.get("PAI_OPENPAI_URL"):
            pairs = [each.split(":", 1) for each in os.environ["PAI_OPENPAI_USERS"].split(",")]
            target = _Target(url.rstrip("/"), dict(pairs))
        else:
            server = stack.enter_context(OpenpaiServer(tmp_path_factory.mktemp("openpai")))
            server.cluster.begin.clear()
            target = _target(server)
        name = f"job_{secrets.token_hex(6)}"
        assert target.submit(name)[0] == 202
        yield _Target(target.url, target.users, name)


_A_JOB = "/api/v2/jobs/OWNER~JOB"
_A_TASK = f"{_A_JOB}/attempts/0/taskRoles/psserver/taskIndex/0"
_A_LOGIN = "/api/v2/authn/basic/login"
_IN_A_LIST = {
    *("debugId", "name", "username", "state", "subState", "executionType", "tags", "retries", "retryDetails"),
    *("retryDelayTime", "submissionTime", "createdTime", "launchedTime", "completedTime", "appExitCode"),
    *("virtualCluster", "totalGpuNumber", "totalTaskNumber", "totalTaskRoleNumber", "jobPriority"),
}
_IN_A_STATUS = {
    *("username", "state", "subState", "executionType", "retries", "retryDetails", "retryDelayTime"),
    *("createdTime", "launchedTime", "completedTime", "attemptState", "appProgress", "appTrackingUrl"),
    *("appCreatedTime", "appLaunchedTime", "appCompletedTime", "appExitCode", "appExitSpec"),
    *("appExitDiagnostics", "appExitMessages", "appExitTriggerMessage", "appExitTriggerTaskRoleName"),
    *("appExitTriggerTaskIndex", "appExitType", "virtualCluster", "submissionTime"),
}

# The method, the path, the body, who asks, the status, and the keys of the reply or the code of the error.
_REQUESTS: list[tuple[str, str, str | None, str, int, str | set[str]]] = [
    ("GET", "/api/v2/info", None, "nobody", 200, {"name", "version", "launcherType", "authnMethod"}),
    ("GET", "/api/v2/authn/info", None, "nobody", 200, {"authn_type", "loginURI", "loginURIMethod"}),
    ("GET", "/api/v2/jobs", None, "nobody", 401, "UnauthorizedUserError"),
    ("GET", "/api/v2/jobs", None, "somebody", 401, "UnauthorizedUserError"),
    ("GET", "/api/v2/nope", None, "owner", 404, "NoApiError"),
    ("GET", "/api/v1/jobs", None, "owner", 404, "NoApiError"),
    (
        *("POST", _A_LOGIN, '{"username":"OWNER","password":"PASSWORD"}', "nobody", 200),
        {"user", "token", "admin"},
    ),
    (
        *("POST", _A_LOGIN, '{"username":"OWNER","password":"wrong-password"}', "nobody", 400),
        "IncorrectPasswordError",
    ),
    ("POST", _A_LOGIN, '{"username":"nobody","password":"xxxxxxx"}', "nobody", 400, "NoUserError"),
    ("POST", _A_LOGIN, '{"username":"OWNER","password":"abc"}', "nobody", 400, "InvalidParametersError"),
    ("POST", "/api/v2/tokens/application", None, "owner", 200, {"token", "application"}),
    ("POST", "/api/v2/tokens/application", None, "application", 403, "ForbiddenUserError"),
    ("GET", "/api/v2/tokens", None, "owner", 200, {"tokens"}),
    ("GET", "/api/v2/tokens", None, "application", 403, "ForbiddenUserError"),
    (
        *("GET", "/api/v2/tokens/check", None, "owner", 200),
        {"username", "application", "jobSpecific", "encodedFrameworkName", "iat", "exp", "admin"},
    ),
    (
        *("GET", "/api/v2/tokens/check", None, "application", 200),
        {"username", "application", "jobSpecific", "encodedFrameworkName", "iat", "admin"},
    ),
    (
        *("GET", "/api/v2/users/OWNER", None, "other", 200),
        {"username", "grouplist", "email", "extension", "admin", "virtualCluster", "storageConfig"},
    ),
    ("GET", "/api/v2/users/me", None, "owner", 400, "NoUserError"),
    (
        *("GET", "/api/v2/virtual-clusters/default", None, "owner", 200),
        {
            *("capacity", "usedCapacity", "maxCapacity", "dedicated"),
            *("resourcesUsed", "resourcesGuaranteed", "resourcesTotal"),
        },
    ),
    ("GET", "/api/v2/virtual-clusters/nope", None, "owner", 404, "NoVirtualClusterError"),
    ("GET", "/api/v2/cluster/sku-types?vc=default", None, "owner", 404, "NoVirtualClusterError"),
    ("GET", "/api/v2/storages", None, "owner", 200, {"storages"}),
    ("GET", "/api/v2/storages/nope", None, "owner", 404, "NoStorageError"),
    (
        "GET",
        "/api/v2/jobs?username=OWNER&withTotalCount=true&limit=1",
        None,
        "owner",
        200,
        {"totalCount", "data"},
    ),
    ("GET", "/api/v2/jobs?limit=50001", None, "owner", 400, "InvalidParametersError"),
    ("GET", _A_JOB, None, "other", 200, {"debugId", "name", "tags", "jobStatus", "taskRoles"}),
    ("GET", "/api/v2/jobs/OWNER~nope", None, "owner", 404, "NoJobError"),
    (
        "GET",
        f"{_A_JOB}/attempts/3",
        None,
        "owner",
        200,
        {"debugId", "name", "tags", "jobStatus", "taskRoles"},
    ),
    ("GET", f"{_A_TASK}/attempts", None, "owner", 404, "NoJobError"),
    ("GET", f"{_A_TASK}/attempts/0/logs", None, "owner", 500, "UnknownError"),
    ("GET", f"{_A_JOB}/events", None, "owner", 200, {"totalCount", "data"}),
    ("GET", f"{_A_JOB}/ssh", None, "owner", 404, "NoJobSshInfoError"),
    ("DELETE", _A_JOB, None, "owner", 404, "NoApiError"),
    ("PUT", f"{_A_JOB}/executionType", '{"value":"stop"}', "owner", 400, "InvalidParametersError"),
    ("PUT", f"{_A_JOB}/executionType", '{"value":"STOP"}', "other", 403, "ForbiddenUserError"),
    ("PUT", "/api/v2/jobs/OWNER~nope/executionType", '{"value":"STOP"}', "owner", 404, "NoJobError"),
    ("PUT", f"{_A_JOB}/tag", '{"value":"a,b"}', "owner", 400, "InvalidParametersError"),
    ("PUT", f"{_A_JOB}/tag", '{"value":"x"}', "other", 403, "ForbiddenUserError"),
    ("PUT", f"{_A_JOB}/tag", '{"value":"x"}', "owner", 200, {"status", "message"}),
]


@pytest.mark.parametrize(("method", "path", "body", "who", "status", "expected"), _REQUESTS)
def test_a_request_gets_the_reply_that_was_recorded(
    seen: _Target, method: str, path: str, body: str | None, who: str, status: int, expected: str | set[str]
) -> None:
    unknown = {"nobody": None, "somebody": "wrong"}
    token = unknown[who] if who in unknown else seen.token(int(who == "other"))
    if who == "application":
        token = seen.stored(seen.ask("POST", "/api/v2/tokens/application", token=token)[1]["token"])
    found, document = seen.ask(method, seen.text(path), body and seen.text(body), token=token)
    assert found == status
    assert (document["code"] if isinstance(expected, str) else set(document)) == expected


_SUBMISSIONS: list[tuple[dict[str, str], int, str | None]] = [
    ({}, 202, None),
    ({"    instances: 1\n": ""}, 500, "UnknownError"),
    ({"instances: 1": "instances: one"}, 400, "InvalidProtocolError"),
    ({"instances: 1": "instances: 0"}, 400, "InvalidProtocolError"),
    ({"  ps_server:": "  ps-server:"}, 400, "InvalidProtocolError"),
    ({"dockerImage: img": "dockerImage: img\n    prerequisites: [other]"}, 400, "InvalidProtocolError"),
    ({"dockerImage: img": "dockerImage: img\n    no_such_key: 1"}, 400, "InvalidProtocolError"),
    ({"type: job": "type: job\nno_such_key: 1"}, 400, "InvalidProtocolError"),
    ({"type: job": "type: job\njobRetryCount: -1"}, 400, "InvalidProtocolError"),
    ({"\nname: ": "\nname: a."}, 400, "InvalidProtocolError"),
    ({"dockerImage: img": "dockerImage: other"}, 400, "InvalidProtocolError"),
    ({"gpu: 0": "gpu: 0, gpus: 0"}, 400, "InvalidProtocolError"),
    ({", gpu: 0": ""}, 400, "InvalidProtocolError"),
    ({"type: dockerimage": "type: storage"}, 400, "InvalidProtocolError"),
    ({"type: job": "deployments: []\ntype: job"}, 400, "InvalidProtocolError"),
    ({"secrets:\n  word: hidden-word": 'secrets: "******"'}, 400, "InvalidProtocolError"),
    ({"type: job": "type: job\ntype: job"}, 500, None),
    ({"parameters: {lr: 0.10}": "parameters: {lr: [0.10}"}, 500, None),
    ({'"exit 0"': '"echo <% $parameters.lr"'}, 500, None),
    ({"type: job": "defaults: {virtualCluster: no_such_cluster}\ntype: job"}, 403, "ForbiddenUserError"),
    ({"type: job": "extras: {storages: [{name: no_such_storage}]}\ntype: job"}, 404, "NoStorageError"),
    ({"type: job": "type: job\n" + "#" * MOST_BYTES}, 413, None),
]


@pytest.mark.parametrize(("changes", "status", "code"), _SUBMISSIONS)
def test_a_submission_gets_the_reply_that_was_recorded(
    seen: _Target, changes: dict[str, str], status: int, code: str | None
) -> None:
    found, document = seen.submit(f"job_{secrets.token_hex(6)}", changes=changes)
    assert (found, document.get("code")) == (status, code)


@pytest.mark.parametrize("kind", ["application/x-yaml", _JSON])
def test_a_job_of_another_type_than_text_is_no_job(seen: _Target, kind: str) -> None:
    status, document = seen.ask("POST", "/api/v2/jobs", "{}" if kind == _JSON else _JOB, kind)
    assert (status, document["code"]) == (400, "InvalidProtocolError")


def test_a_name_is_used_up_for_ever(seen: _Target) -> None:
    status, document = seen.submit(seen.job)
    assert (status, document["code"]) == (409, "ConflictJobError")


def test_a_waiting_job_has_a_status_and_no_roles(seen: _Target) -> None:
    _, detail = seen.ask("GET", seen.text(_A_JOB))
    assert set(detail["jobStatus"]) == _IN_A_STATUS
    assert (detail["jobStatus"]["state"], detail["taskRoles"]) == ("WAITING", {})


def test_a_job_of_a_list_has_its_numbers_and_times(seen: _Target) -> None:
    _, jobs = seen.ask("GET", seen.text("/api/v2/jobs?username=OWNER&keyword=JOB"))
    assert [set(job) for job in jobs] == [_IN_A_LIST]


@pytest.mark.parametrize(
    ("changes", "secret"),
    [
        ({}, "******"),
        ({"secrets:\n  word: hidden-word": "secrets: {word: hidden-word}"}, "******"),
        ({"secrets:": '"secrets":'}, {"word": "hidden-word"}),
    ],
)
def test_secrets_are_masked_only_where_their_key_is_plain(
    seen: _Target, changes: dict[str, str], secret: Any
) -> None:
    name = f"job_{secrets.token_hex(6)}"
    assert seen.submit(name, changes=changes)[0] == 202
    path = seen.text(f"/api/v2/jobs/OWNER~{name}/config")
    assert seen.ask("GET", path, token=seen.token(1))[1]["secrets"] == secret


def test_a_reply_that_is_known_is_not_sent_again(seen: _Target) -> None:
    headers = {"Authorization": f"Bearer {seen.token()}"}
    request = urllib.request.Request(seen.url + seen.text(_A_JOB), headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
        request.add_header("If-None-Match", reply.headers["ETag"])
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30)  # noqa: S310
    with error.value:
        assert error.value.code == 304


def test_of_two_equal_submissions_at_once_one_is_lost_silently(
    server: OpenpaiServer, cluster: _Target
) -> None:
    server.cluster.meeting = threading.Barrier(2)
    found: list[int] = []
    both = [
        threading.Thread(target=lambda text=text: found.append(cluster.submit("race", text)[0]))
        for text in ("exit 0", "exit 1")
    ]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert found == [202, 202]
    assert list(server.cluster.jobs) == ["alice~race"]


def test_a_job_runs_and_its_output_is_read(server: OpenpaiServer, cluster: _Target) -> None:
    commands = "echo lr=<% $parameters.lr %> <% $secrets.word %> $PAI_TASK_INDEX; exit 3"
    cluster.submit("runs", commands)
    server.cluster.jobs["alice~runs"].wait(lambda job: job.over)
    _, detail = cluster.ask("GET", "/api/v2/jobs/alice~runs")
    assert (detail["jobStatus"]["state"], detail["jobStatus"]["appExitCode"]) == ("FAILED", 3)
    (task,) = detail["taskRoles"]["psserver"]["taskStatuses"]
    assert _output(server, cluster, task["containerLog"]) == (200, b"lr=0.1 hidden-word 0\n", None)


def _output(
    server: OpenpaiServer, cluster: _Target, log: str, name: str = "all", **headers: str
) -> tuple[int, bytes, str | None]:
    locations = cluster.ask("GET", log)[1]["locations"]
    (uri,) = [each["uri"] for each in locations if each["name"] == name]
    return _content(server, uri, **headers)


def _content(server: OpenpaiServer, uri: str, **headers: str) -> tuple[int, bytes, str | None]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", uri, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read(), reply.headers["Content-Range"]


def test_output_is_followed_by_ranges_over_a_rotation(server: OpenpaiServer, cluster: _Target) -> None:
    cluster.submit("log", "printf 0123456789")
    job = server.cluster.jobs["alice~log"]
    job.wait(lambda job: job.over)
    (task,) = job.attempts[0].tasks
    uris = server.cluster.logs.locations("alice", job.debug_id, "psserver", task.last.uid, tail=False)
    uri = next(each["uri"] for each in uris if each["name"] == "all")
    assert _content(server, uri, Range="bytes=8-") == (206, b"89", "bytes 8-9/10")
    assert _content(server, uri, Range="bytes=10-")[::2] == (416, "bytes */10")
    rotate(job.log_folder(task, task.last) / "user-all")
    assert _content(server, uri, Range="bytes=0-")[:2] == (200, b"")
    old = uri.replace("user-all", "user-all.1")
    assert _content(server, old, Range="bytes=9-") == (206, b"9", "bytes 9-9/10")
    server.cluster.logs.expire()
    assert _content(server, uri)[:2] == (403, b"")


_ONE_OF_TWO = "instances: 2\n    completion: {minSucceededInstances: 1, minFailedInstances: 2}"


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"type: job": "type: job\njobRetryCount: 1"}, [1, 1]),
        (
            {"instances: 1": _ONE_OF_TWO},
            [0],
        ),
        ({"instances: 1": "instances: 2\n    completion: {minFailedInstances: 0}"}, [1]),
    ],
)
def test_retries_and_policies_decide_as_the_platform_does(
    server: OpenpaiServer, cluster: _Target, changes: dict[str, str], codes: list[int]
) -> None:
    assert cluster.submit("tries", "exit $((1 - PAI_TASK_INDEX))", changes)[0] == 202
    job = server.cluster.jobs["alice~tries"]
    job.wait(lambda job: job.over)
    assert [attempt.code for attempt in job.attempts] == codes


def test_a_task_is_tried_again_where_its_job_is_no_gang(server: OpenpaiServer, cluster: _Target) -> None:
    changes = {
        "type: job": "type: job\nextras: {gangAllocation: false}",
        "instances: 1": "instances: 1\n    taskRetryCount: 2",
    }
    assert cluster.submit("again", "exit $((2 - FC_TASK_ATTEMPT_ID))", changes)[0] == 202
    job = server.cluster.jobs["alice~again"]
    job.wait(lambda job: job.over)
    path = "/api/v2/jobs/alice~again/attempts/0/taskRoles/{}/taskIndex/0/attempts"
    _, document = cluster.ask("GET", path.format("psserver"))
    assert [each["containerExitCode"] for each in document["attempts"]] == [0, 1, 2]
    assert cluster.ask("GET", path.format("ps_server"))[0] == 404


def test_only_its_owner_stops_a_job(server: OpenpaiServer, cluster: _Target) -> None:
    cluster.submit("long", "exec tail -f /dev/null")
    job = server.cluster.jobs["alice~long"]
    job.wait(lambda job: bool(job.attempts))
    path = "/api/v2/jobs/alice~long"
    stop = ("PUT", f"{path}/executionType", '{"value":"STOP"}', _JSON)
    assert cluster.ask(*stop, cluster.token(1))[0] == 403
    assert cluster.ask(*stop)[0] == 202
    job.wait(lambda job: job.over)
    assert cluster.ask("PUT", f"{path}/executionType", '{"value":"START"}')[0] == 202
    status = cluster.ask("GET", path)[1]["jobStatus"]
    assert (status["state"], status["subState"], status["appExitCode"]) == ("STOPPED", "Completed", -210)
    assert status["executionType"] == "START"


@pytest.mark.parametrize(
    ("hived", "gpus", "status"),
    [
        ("{taskRoles: {ps_server: {skuType: K80}}}", 1, 202),
        ("{taskRoles: {ps_server: {skuType: K80}}}", 99, 400),
        ("{taskRoles: {ps_server: {skuType: A100}}}", 1, 400),
        ("{jobPriorityClass: oppo, taskRoles: {ps_server: {skuType: A100}}}", 99, 202),
        ("{taskRoles: {ps_server: {skuType: K80, pinnedCellId: c}}}", 1, 400),
        ("{taskRoles: {other: {skuType: K80}}}", 1, 400),
        ("{taskRoles: {ps_server: {skuType: nope}}}", 1, 500),
        ("{jobPriorityClass: high}", 1, 400),
        ("{}", 2, 202),
        ("{}", 3, 400),
    ],
)
def test_with_hived_skus_are_checked(
    server: OpenpaiServer, cluster: _Target, hived: str, gpus: int, status: int
) -> None:
    server.cluster.begin.clear()
    server.cluster.sku_types = {
        "A100": {"cpu": 12, "memory": 65536, "gpu": 1},
        "K80": {"cpu": 4, "memory": 8192, "gpu": 1},
    }
    server.cluster.quotas = {"default": Quota(("K80", "K80"))}
    changes = {"type: job": f"type: job\nextras: {{hivedScheduler: {hived}}}", "gpu: 0": f"gpu: {gpus}"}
    assert cluster.submit("skus", changes=changes)[0] == status


def test_a_reply_can_be_lost_after_its_request_was_done(server: OpenpaiServer, cluster: _Target) -> None:
    server.arm(Fault(lost=True), "POST", "/jobs")
    token = cluster.token()
    text = _JOB.replace("NAME", "lost").replace("COMMANDS", "exit 0")
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        cluster.ask("POST", "/api/v2/jobs", text, _YAML, token)
    assert cluster.ask("GET", "/api/v2/jobs/alice~lost", token=token)[0] == 200


def test_a_reply_can_be_an_error_of_something_between(server: OpenpaiServer, cluster: _Target) -> None:
    token = cluster.token()
    for status in (429, 500):
        server.arm(Fault(status, b"Too many requests", {"Retry-After": "1"}), path="/jobs")
        assert cluster.ask("GET", "/api/v2/jobs", token=token) == (status, "Too many requests")
    assert cluster.ask("GET", "/api/v2/jobs", token=token) == (200, [])
