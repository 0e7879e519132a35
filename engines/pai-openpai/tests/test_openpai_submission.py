"""A job is submitted once, whatever becomes of its request, and no secret of it can be read by others."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pai_openpai.client import submission
from pai_openpai.client.api import Api
from pai_openpai.client.submission import submit
from pai_runtime.runs.errors import CannotRun, MayBeLeft, RequestError
from tests.certificates import authority, server_certificate
from tests.openpai.lab import Lab, run_of
from tests.openpai.rest_server import Fault, OpenpaiServer
from tests.support import job

pytestmark = pytest.mark.process

POST = ("POST", "/api/v2/jobs")
HELD = job(worker={"commands": ["exec tail -f /dev/null"]})
SECRET = "s3cr3t-of-the-job"


def test_a_lost_reply_submits_nothing_twice(openpai: Lab) -> None:
    openpai.server.arm(Fault(lost=True), *POST)
    reader = openpai.submit(job())
    assert list(openpai.server.cluster.jobs) == [f"alice~{reader.named}"]
    assert len(openpai.asked(*POST)) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(500, CannotRun), (502, MayBeLeft), (504, MayBeLeft), (413, CannotRun)]
)
def test_an_error_without_json_is_told_and_nothing_is_submitted_again(
    openpai: Lab, status: int, error: type[CannotRun]
) -> None:
    openpai.server.arm(Fault(status, b"<html>\x1b[31m"), *POST)
    with pytest.raises(CannotRun) as raised:
        openpai.submit(job())
    assert type(raised.value) is error
    assert "\x1b" not in str(raised.value)
    assert (len(openpai.asked(*POST)), len(openpai.server.cluster.jobs)) == (1, 0)


def test_a_server_that_cannot_be_reached_has_no_job(openpai: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    api = openpai.opened().api
    assert api.user == "alice"
    monkeypatch.setattr(openpai.server, "ended", threading.Event())
    openpai.server.shutdown()
    openpai.server.socket.close()
    with pytest.raises(CannotRun) as raised:
        submit(api, "test", lambda name, number: f"{name}{number}", ())
    assert type(raised.value) is CannotRun


def test_of_two_that_submit_under_one_name_at_once_each_has_a_job(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = openpai.server.cluster
    cluster.meeting = threading.Barrier(2, lambda: setattr(cluster, "meeting", None))
    names = ["test_one", "test_one", "test_two"]
    monkeypatch.setattr(submission, "new_name", lambda _job: names.pop(0))
    found: list[str] = []
    both = [openpai.planned(job()) for _ in range(2)]
    threads = [threading.Thread(target=lambda one=one: found.append(one.submit().named)) for one in both]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == ["test_one", "test_two"]
    assert sorted(openpai.server.cluster.jobs) == ["alice~test_one", "alice~test_two"]


def test_a_name_that_is_used_is_left_to_its_job(openpai: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["test_one", "test_one", "test_two"]
    monkeypatch.setattr(submission, "new_name", lambda _job: names.pop(0))
    assert [openpai.submit(job()).named for _ in range(2)] == ["test_one", "test_two"]


@pytest.mark.parametrize("shown", [b"{}", b'{"extras": {"submission": ""}}'])
def test_a_job_that_does_not_show_its_submission_is_not_submitted_again(openpai: Lab, shown: bytes) -> None:
    openpai.server.arm(Fault(200, shown), "GET", "/config")
    with pytest.raises(MayBeLeft) as raised:
        openpai.submit(HELD)
    assert not raised.value.interrupted
    assert len(openpai.asked(*POST)) == 1
    assert "pai-runtime stop test_" in str(raised.value)


@pytest.mark.parametrize("status", [500, 503])
def test_a_job_that_is_stored_after_an_error_is_found(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(submission, "LATE", 10)
    original = Api.submit

    def stored_after_an_error(api: Api, text: str) -> None:
        original(api, text)
        openpai.server.arm(Fault(404, b"{}"), "GET", "/config")
        raise RequestError("failed", status=status)

    monkeypatch.setattr(Api, "submit", stored_after_an_error)
    assert openpai.submit(job()).named
    assert len(openpai.server.cluster.jobs) == 1


def test_too_many_requests_are_waited_for_as_the_server_asks(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    openpai.server.arm(Fault(429, b"Too many requests", {"Retry-After": "7"}), *POST)
    openpai.submit(job())
    assert (waited, len(openpai.server.cluster.jobs)) == ([7.0], 1)


@pytest.mark.parametrize("pause", ["", "3600"])
def test_a_long_wait_is_left_to_the_user(openpai: Lab, pause: str) -> None:
    openpai.server.arm(Fault(429, b"Too many requests", {"Retry-After": pause}), *POST)
    with pytest.raises(CannotRun):
        openpai.submit(job())
    assert not openpai.server.cluster.jobs


def _interrupted_after(original: Callable[[Api, str], None]) -> Callable[[Api, str], None]:
    def interrupted(api: Api, text: str) -> None:
        original(api, text)
        raise KeyboardInterrupt

    return interrupted


def test_ctrl_c_during_the_request_stops_the_job(openpai: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Api, "submit", _interrupted_after(Api.submit))
    with pytest.raises(MayBeLeft) as raised:
        openpai.submit(HELD)
    assert raised.value.interrupted
    (left,) = openpai.server.cluster.jobs.values()
    left.wait(lambda found: found.over)
    assert left.submission.name in str(raised.value)


def test_ctrl_c_while_the_job_is_looked_for_stops_it(openpai: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    original, interrupts = submission._number, [KeyboardInterrupt()]

    def interrupted(config: Mapping[str, Any]) -> str:
        if interrupts:
            raise interrupts.pop()
        return original(config)

    monkeypatch.setattr(submission, "_number", interrupted)
    with pytest.raises(MayBeLeft) as raised:
        openpai.submit(HELD)
    assert raised.value.interrupted
    (left,) = openpai.server.cluster.jobs.values()
    left.wait(lambda found: found.over)


def test_ctrl_c_again_and_again_names_what_may_be_left(openpai: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_config: Mapping[str, Any]) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(submission, "_number", interrupted)
    with pytest.raises(MayBeLeft) as raised:
        openpai.submit(job())
    assert raised.value.interrupted
    assert "pai-runtime stop test_" in str(raised.value)


def test_ctrl_c_before_the_request_names_what_may_be_left(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_api: Api, _text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Api, "submit", interrupted)
    with pytest.raises(MayBeLeft) as raised:
        openpai.submit(HELD)
    assert raised.value.interrupted
    assert "pai-runtime stop test_" in str(raised.value)


def test_a_redirect_is_not_followed_with_the_token(openpai: Lab, tmp_path: Path) -> None:
    with OpenpaiServer(tmp_path / "other") as other:
        where = {"Location": f"{other.url}/rest-server/api/v2/jobs"}
        for method in ("GET", "POST"):
            openpai.server.arm(Fault(307, b"", where), method)
            with pytest.raises(CannotRun, match=other.url):
                openpai.submit(job())
        assert other.requests == []


def test_a_portal_with_a_certificate_of_its_own_needs_the_file_of_its_authority(
    tmp_path: Path, quick_openpai: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del quick_openpai
    own = authority("own")
    certificate = server_certificate(own, ["127.0.0.1"]).write(tmp_path / "server.pem")
    (tmp_path / "ca.pem").write_bytes(own.pem)
    with OpenpaiServer(tmp_path, certificate) as server:
        monkeypatch.setenv("PAI_TOKEN", server.cluster.token("alice"))
        with pytest.raises(CannotRun, match="caFile"):
            Lab(server).submit(job())
        openpai = Lab(server, caFile=str(tmp_path / "ca.pem"))
        assert openpai.ended(openpai.submit(job())).outcome == "succeeded"


def test_no_secret_is_where_others_can_read_it(openpai: Lab) -> None:
    command = f"test '<% $secrets.key %>' = {SECRET[:6]}''{SECRET[6:]}"
    reader = openpai.submit(job(secrets={"key": SECRET}, worker={"commands": [command]}))
    run = openpai.ended(reader)
    assert run.outcome == "succeeded"
    assert SECRET not in str(openpai.opened().api.get(f"/jobs/alice~{reader.named}/config", what="look"))
    others = [each for each in openpai.server.requests if each.method != "POST"]
    assert SECRET not in str(others)
    assert not [path for path in openpai.server.cluster.logs.folder.rglob("*") if _has(path, SECRET)]


def _has(path: Path, text: str) -> bool:
    return path.is_file() and text in path.read_text("utf-8", "replace")


def test_a_job_whose_secret_the_server_shows_is_stopped(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Api.submit

    def quoted(api: Api, text: str) -> None:
        original(api, text.replace("\nsecrets:", '\n"secrets":'))

    monkeypatch.setattr(Api, "submit", quoted)
    with pytest.raises(MayBeLeft) as raised:
        openpai.submit({**HELD, "secrets": {"key": SECRET}})
    assert SECRET not in str(raised.value)
    (left,) = openpai.server.cluster.jobs.values()
    left.wait(lambda found: found.over)


def test_a_token_that_is_refused_is_said_to_be_without_being_shown(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = openpai.server.cluster.token("alice", seconds=-1)
    monkeypatch.setenv("PAI_TOKEN", token)
    with pytest.raises(CannotRun) as raised:
        openpai.submit(job())
    assert "PAI_TOKEN" in str(raised.value)
    assert token not in str(raised.value)


def test_only_the_owner_of_a_job_stops_it(openpai: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = openpai.submit(HELD)
    monkeypatch.setenv("PAI_TOKEN", openpai.server.cluster.token("bob.x"))
    other = openpai.opened().open_run(f"alice~{reader.named}")
    assert not run_of(other).over
    with pytest.raises(Exception, match="not allowed"):
        other.cancel()
    assert reader.cancel()
    openpai.job(reader).wait(lambda found: found.over)
    assert run_of(openpai.opened().open_run(f"alice~{reader.named}")).outcome == "cancelled"
