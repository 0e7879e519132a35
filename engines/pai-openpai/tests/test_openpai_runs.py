"""Runs on an OpenPAI cluster as people see them: states, reasons, output, exit records, ways in."""

import json
import re
import shlex
import threading
import time
from pathlib import Path

import pytest

from pai_openpai.client import api, log_files, polled
from pai_openpai.client.exit_records import exit_record_in, record_of_log
from pai_openpai.client.profile import OpenpaiProfile
from pai_openpai.client.reader import OpenpaiRunReader
from pai_runtime.runs.errors import CannotEnter, CannotRemove, RequestError
from pai_runtime.runs.state import Run, Unreadable
from pai_runtime.terminal.words import task_counts
from pai_task.exit_record import termination_message
from tests.openpai.jobs import Job, JobAttempt, Task, TaskAttempt, now
from tests.openpai.lab import Lab, once, run_of
from tests.openpai.log_manager import rotate
from tests.openpai.rest_server import Fault, OpenpaiServer
from tests.support import job, until

HELD = ["exec tail -f /dev/null"]


def everything(reader: OpenpaiRunReader, attempt: int | None = None) -> bytes:
    log = reader.log(run_of(reader).tasks[0], "user", attempt)
    data = b""
    while piece := log.read(1000):
        data += piece
    return data


@pytest.mark.process
def test_a_waiting_task_tells_why_by_its_last_warning(openpai: Lab) -> None:
    openpai.server.cluster.begin.clear()
    reader = openpai.submit(job(taskRoles={"ps_server": job()["taskRoles"]["worker"]}))
    event = {"taskroleName": "psserver", "taskIndex": 0, "type": "Warning", "reason": "FailedScheduling"}
    said = [{**event, "message": "no GPU\x1b[31m"}, {**event, "message": "older"}]
    openpai.server.cluster.events[f"alice~{reader.named}"] = said
    run = run_of(openpai.opened().open_run(reader.named))
    assert (run.word, [task.name for task in run.tasks]) == ("queued", ["ps_server/0"])
    assert run.tasks[0].note.startswith("FailedScheduling: no GPU")


@pytest.mark.process
def test_runs_are_listed_by_their_job_with_their_outcome(openpai: Lab) -> None:
    reader = openpai.submit(job(name="a_job", worker={"instances": 2, "commands": ["exit 3"]}))
    openpai.ended(reader)
    cluster = openpai.opened()
    ((listed, run),) = cluster.runs()
    assert isinstance(run, Run)
    assert (listed.named, run.job, run.outcome) == (reader.named, "a_job", "failed")
    assert task_counts(run) == "2 tasks"
    assert cluster.find_run("latest", "somebody").named == reader.named
    asked = len(openpai.server.requests)
    cluster.runs()
    assert len(openpai.server.requests) == asked


@pytest.mark.parametrize("name", ["none", "bob.x~none", "../x", "a~b~c", "~x", "x y"])
def test_there_is_no_run_of_another_name(openpai: Lab, name: str) -> None:
    run = openpai.opened().open_run(name).run()
    assert isinstance(run, Unreadable)
    assert run.is_missing


@pytest.mark.process
def test_output_is_read_over_a_rotation_and_after_its_links_have_expired(openpai: Lab) -> None:
    wait = "until [ -e go ]; do sleep 0.01; done; rm go"
    reader = openpai.submit(job(worker={"commands": ["echo one", wait, "echo two", wait, "echo three"]}))
    once(reader, "running")
    (task,) = openpai.job(reader).attempts[0].tasks
    folder = openpai.job(reader).log_folder(task, task.last) / "user-all"
    work = openpai.server.cluster.folder / "pods" / task.last.uid
    log = reader.log(run_of(reader).tasks[0], "user")
    data = bytearray()

    def has_read(text: bytes) -> bool:
        data.extend(log.read(100))
        return bytes(data) == text

    until(lambda: has_read(b"one\n"))
    (work / "go").touch()
    until(lambda: (folder / "current").read_bytes() == b"one\ntwo\n")
    rotate(folder)  # before "two" is read; the task still writes to the file before
    openpai.server.cluster.logs.expire()
    (folder / "current").write_bytes(b"3\n")
    until(lambda: has_read(b"one\ntwo\n3\n"))
    (work / "go").touch()
    openpai.ended(reader)
    assert everything(openpai.opened().open_run(reader.named)).startswith(b"one\ntwo\n")


@pytest.mark.process
def test_no_token_of_a_node_is_shown_and_that_of_the_user_goes_to_no_node(openpai: Lab) -> None:
    reader = openpai.submit(job(worker={"commands": ["echo x"]}))
    openpai.ended(reader)
    openpai.server.arm(Fault(500, b"broken"), path="/log-manager/")
    log = reader.log(run_of(reader).tasks[0], "user")
    with pytest.raises(OSError, match="500") as raised:
        log.read(10)
    assert not [each for each in openpai.server.cluster.logs.tokens if each in str(raised.value)]
    assert {each.authorization for each in openpai.asked("HEAD") + openpai.asked("GET", "/log-manager/")} == {
        ""
    }


@pytest.mark.process
def test_an_earlier_attempt_has_its_own_output(openpai: Lab) -> None:
    command = "echo attempt $FC_FRAMEWORK_ATTEMPT_ID; exit 1"
    reader = openpai.submit(job(jobRetryCount=1, worker={"commands": [command]}))
    run = openpai.ended(reader)
    assert (run.retries, run.tasks[0].retries) == (1, 1)
    assert everything(reader, 0) == b"attempt 0\n"
    assert everything(reader) == b"attempt 1\n"


@pytest.mark.process
def test_a_log_that_is_gone_is_said_to_be(openpai: Lab) -> None:
    reader = openpai.submit(job(worker={"commands": ["echo x"]}))
    openpai.ended(reader)
    openpai.server.arm(
        Fault(404, b'{"code": "NoTaskLogError", "message": "Log of task is not found."}'), path="/logs"
    )
    log = reader.log(run_of(reader).tasks[0], "user")
    with pytest.raises(OSError, match="30 days"):
        log.read(10)
    assert log.is_at_end()


DIAGNOSTICS = """\
Pod failed: PodPattern unmatched:
containers:
  - name: init
    reason: Completed
    code: 0
  - name: app
    reason: Error
    message: |
      [PAI_RUNTIME_ERROR_START]
      exitCode: 240
      originUserExitCode: null
      trigger: setup
      [PAI_RUNTIME_ERROR_END]
    code: 240
"""


def test_an_exit_record_is_found_in_what_the_cluster_says_of_a_task() -> None:
    assert exit_record_in(DIAGNOSTICS) == {"exitCode": 240, "originUserExitCode": None, "trigger": "setup"}
    ours = 'exitCode: 240\nmessage: "a: b"\nsolution: ["x", "y"]\n'
    expected = {"exitCode": 240, "message": "a: b", "solution": ["x", "y"]}
    assert record_of_log(ours.encode()) == expected
    assert record_of_log(termination_message(ours).encode()) == expected
    for odd in ("[" * 20_000, "NaN", "1e999", "\ud800"):
        assert record_of_log(f"exitCode: 3\nmessage: {odd}\n".encode("utf-8", "replace"))["exitCode"] == 3
    deep = f"[PAI_RUNTIME_ERROR_START]\n{'[' * 65_000}"
    for text in ("", "Pod failed", DIAGNOSTICS.partition("trigger")[0], "[PAI_RUNTIME_ERROR_START]", deep):
        assert exit_record_in(text) == {}


MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity)"
FOLDED = f"""\
>
      [PAI_RUNTIME_ERROR_START]

      exitCode: 1

      reason: "{MEMORY.replace(" total", chr(10) + "      total")}"

      [PAI_RUNTIME_ERROR_END]"""
QUOTED = (
    rf'"[PAI_RUNTIME_ERROR_START]\nexitCode: 1\nreason: \"\U0001F600 {MEMORY}\"\n[PAI_RUNTIME_ERROR_END]\n"'
)


@pytest.mark.parametrize(("message", "reason"), [(FOLDED, MEMORY), (QUOTED, f"\U0001f600 {MEMORY}")])
def test_an_exit_record_is_read_in_whatever_style_the_server_writes_it(message: str, reason: str) -> None:
    found = f"{DIAGNOSTICS.partition('|')[0]}{message}\n    code: 1\n"
    assert exit_record_in(found) == {"exitCode": 1, "reason": reason}


@pytest.mark.process
def test_the_record_of_a_task_is_read_from_its_logs_if_the_cluster_has_none(openpai: Lab) -> None:
    reader = openpai.submit(job(worker={"commands": ["exit 240"]}))
    openpai.ended(reader)
    assert "reason" not in reader.exit_record(run_of(reader).tasks[0])  # which would blame the platform
    (task,) = openpai.job(reader).attempts[0].tasks
    folder = openpai.job(reader).log_folder(task, task.last)
    (folder / "exit.yaml").write_text('exitCode: 240\nreason: "the plugin says so"\n')
    again = openpai.opened().open_run(reader.named)
    assert again.exit_record(run_of(again).tasks[0])["reason"] == "the plugin says so"
    asked = len(openpai.server.requests)
    assert again.exit_record(run_of(again).tasks[0])["reason"] == "the plugin says so"
    assert len(openpai.server.requests) == asked


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFzZGZhc2RmYXNkZmFzZGZhc2RmYXNkZmFzZGZhc2Rm ada"


@pytest.mark.process
def test_a_container_is_entered_by_ssh_if_the_job_has_it(openpai: Lab) -> None:
    without = openpai.submit(job(worker={"commands": HELD}))
    once(without, "running")
    with pytest.raises(CannotEnter, match="plugin ssh"):
        without.exec(run_of(without).tasks[0], [])
    uses = [{"plugin": "ssh", "parameters": {"jobssh": False, "userssh": {"value": KEY}}}]
    extras = {"com.microsoft.pai.runtimeplugin": uses}
    reader = openpai.submit(job(worker={"commands": HELD}, extras=extras))
    once(reader, "running")
    with pytest.raises(CannotEnter) as raised:
        reader.exec(run_of(reader).tasks[0], ["a b", "$c"])
    line = re.search(r"ssh -p \d+ root@127\.0\.0\.1 .*", str(raised.value))
    assert line is not None
    *_, sent = shlex.split(line[0])
    assert shlex.split(sent) == ["a b", "$c"]
    with pytest.raises(CannotRemove):
        reader.remove()


@pytest.mark.process
def test_a_server_that_is_away_for_a_while_is_asked_again(openpai: Lab) -> None:
    reader = openpai.submit(job(worker={"commands": HELD}))
    once(reader, "running")
    openpai.server.arm(Fault(503, b"", {"Retry-After": "0"}), path=reader.named, times=2)
    until(lambda: not run_of(reader).over and reader.is_away())
    until(lambda: not run_of(reader).over and not reader.is_away())


class Away(api.Api):
    """A server that answered once, and never again."""

    def known(self, path: str, *, what: str, **query: str | int) -> api.Known:
        del path, what, query
        return api.Known({}, "")

    def changed(self, path: str, known: api.Known, *, what: str, **query: str | int) -> api.Known | None:
        del path, known, query
        raise RequestError(what, may_pass=True)


def test_a_server_may_be_away_for_days(quick_openpai: None) -> None:
    del quick_openpai
    away = polled.Polled(Away(OpenpaiProfile("lab", "https://pai.example.com")), "/x", "look")
    assert away.document() == {}
    away.failures = 5000
    until(lambda: away.document() == {} and away.failures > 5000)


@pytest.mark.process
def test_a_job_that_did_not_change_is_not_sent_again(openpai: Lab) -> None:
    reader = openpai.submit(job(worker={"commands": HELD}))
    once(reader, "running")
    before = reader._polled._known
    asked = len(openpai.asked("GET", reader.named))
    until(lambda: not run_of(reader).over and len(openpai.asked("GET", reader.named)) > asked + 2)
    assert reader._polled._known is before


def big(openpai: Lab, reader: OpenpaiRunReader, tasks: int) -> Job:
    """The job, with tasks that are no processes."""
    found = openpai.job(reader)
    attempt = JobAttempt(
        0, [Task("worker", index, [TaskAttempt(0, launched=now())]) for index in range(tasks)]
    )
    with found.changed:
        attempt.launched = now()
        found.attempts.append(attempt)
    return found


@pytest.mark.process
def test_two_thousand_tasks_are_followed_with_sixty_requests_a_minute(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "LEFT", 10)
    monkeypatch.setattr(polled, "FIRST_PAUSE", 0.3)
    openpai.server.cluster.begin.clear()
    reader = openpai.submit(job(worker={"instances": 2000, "commands": HELD}))
    whole = big(openpai, reader, 2000)
    since = len(openpai.server.requests)
    spent, said = time.process_time(), list[str]()
    other = openpai.opened().open_run(reader.named)
    other.follow(said.append)
    opened = {task.name: other.log(task, "user") for task in run_of(other).tasks}
    for _ in range(5):
        for log in opened.values():
            log.read(1000)
        other.wait(0.01)
    assert len(run_of(other).tasks) == 2000
    assert said  # that not all output is shown
    with whole.changed:
        for task in whole.attempts[0].tasks:
            task.last.code, task.last.completed = 0, now()
        whole.attempts[0].code, whole.over = 0, True
    until(lambda: run_of(other).over)
    other.close()
    to_server = [each for each in openpai.server.requests[since:] if "/rest-server/" in each.path]
    assert len(to_server) <= api.MOST_A_MINUTE
    assert time.process_time() - spent < 30


@pytest.mark.process
def test_when_the_requests_of_a_minute_are_used_up_nothing_is_asked(
    openpai: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = openpai.submit(job(worker={"commands": HELD}))
    once(reader, "running")
    monkeypatch.setattr(log_files, "LEFT", api.MOST_A_MINUTE)
    asked = len(openpai.server.requests)
    reader.follow(lambda _text: None)
    log = reader.log(run_of(reader).tasks[0], "user")
    until(lambda: log.read(1) == b"" and len(openpai.server.requests) > asked)
    reader.close()
    assert not [each for each in openpai.server.requests[asked:] if each.path.endswith("/logs")]


@pytest.mark.process
def test_a_log_on_another_server_is_read_without_the_token(openpai: Lab, tmp_path: Path) -> None:
    reader = openpai.submit(job(worker={"commands": ["echo x"]}))
    openpai.ended(reader)
    with OpenpaiServer(tmp_path / "other") as other:
        locations = [{"name": "all", "uri": f"{other.url}/blob?sig=secret"}]
        openpai.server.arm(Fault(200, json.dumps({"locations": locations}).encode()), path="/logs")
        other.arm(Fault(200, b"", {"ETag": '"1"'}), "HEAD")
        other.arm(Fault(206, b"blob\n", {"Content-Range": "bytes 0-4/5"}), "GET")
        assert reader.log(run_of(reader).tasks[0], "user").read(100) == b"blob\n"
        assert {each.authorization for each in other.requests} == {""}


@pytest.mark.process
def test_a_waiting_task_is_not_asked_for_output(openpai: Lab) -> None:
    openpai.server.cluster.begin.clear()
    reader = openpai.submit(job())
    big(openpai, reader, 1).attempts[0].tasks[0].last.launched = None
    log = reader.log(run_of(reader).tasks[0], "user")
    assert (log.read(10), log.is_at_end()) == (b"", False)
    assert not openpai.asked("GET", "/logs")


@pytest.mark.process
def test_a_waiting_task_has_no_runtime_log_yet(openpai: Lab) -> None:
    openpai.server.cluster.begin.clear()
    reader = openpai.submit(job())
    big(openpai, reader, 1).attempts[0].tasks[0].last.launched = None
    none = Fault(404, b'{"code": "NoTaskLogError", "message": "Log of task is not found."}')
    openpai.server.arm(none, path="/logs", times=100)
    log = reader.log(run_of(reader).tasks[0], "runtime")
    until(lambda: log.read(10) == b"" and len(openpai.asked("GET", "/logs")) > 1)
    assert not log.is_at_end()


def test_a_process_that_ends_waits_for_no_log(openpai: Lab) -> None:
    reader = openpai.opened().open_run("none")
    before = set(threading.enumerate())
    reader.follow(lambda _text: None)
    begun = {each for each in threading.enumerate() if each.name.startswith("log ")} - before
    assert begun
    assert all(each.daemon for each in begun)
    reader.close()
    for each in begun:
        each.join()
