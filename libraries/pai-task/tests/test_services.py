"""Services: background processes beside the user's command."""

import json
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pai_task.launch import LaunchOptions
from pai_task.plan import PlannedService, Service
from tests.task_harness import TaskRun, plan, run_task, shell

pytestmark = pytest.mark.process

_SERVER = (
    "trap 'echo stopped in good order; exit 0' TERM\necho serving\ntouch up\nwhile :; do sleep 0.01; done"
)


def _until_logged(text: str) -> str:
    return f"until grep -q '{text}' ../logs/runtime.log; do sleep 0.02; done\n"


def _with(folder: Path, *services: Service, command: str = "true", exits: str = "true") -> TaskRun:
    planned = tuple(PlannedService(0, service) for service in services)
    return run_task(replace(plan(folder, command, [shell("taskExits", 0, exits)]), services=planned))


def test_a_required_service_is_ready_before_the_command_and_stopped_after_the_exit_callbacks(
    tmp_path: Path,
) -> None:
    service = Service("server", _SERVER, probe="[ -e up ]", required=True)
    run = _with(tmp_path, service, command="ls", exits="ls up; echo exits")
    assert run.process.returncode == 0
    assert run.stdout_log == b"up\n"
    log = run.runtime_log
    assert (
        log.index("serving")
        < log.index("[INFO] service 'server' is ready")
        < log.index("[INFO] USER COMMAND START")
    )
    assert log.index("exits") < log.index("stopped in good order")


def test_a_service_that_never_gets_ready_fails_the_setup_only_if_it_is_required(tmp_path: Path) -> None:
    service = Service("server", "sleep 1000", probe="false", ready_within=0.3)
    free = _with(tmp_path / "free", service, command=_until_logged("is not ready") + "echo ran")
    assert (free.process.returncode, free.stdout_log) == (0, b"ran\n")
    assert "[WARNING] service 'server' is not ready after 0.3 s" in free.runtime_log
    required = _with(tmp_path / "required", replace(service, required=True), command="echo ran")
    assert (required.process.returncode, required.stdout_log) == (240, b"")
    assert "the service 'server' of 'a'" in required.record["message"]


def test_a_probe_that_hangs_is_a_service_that_does_not_get_ready(tmp_path: Path) -> None:
    service = Service("server", "sleep 1000", probe="sleep 1000", ready_within=0.3, required=True)
    run = _with(tmp_path, service, command="echo ran")
    assert (run.process.returncode, run.stdout_log) == (240, b"")
    assert "the service 'server' of 'a'" in run.record["message"]


def test_a_service_or_probe_for_which_no_process_can_be_made_does_not_touch_the_command(
    tmp_path: Path,
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "cat", "grep", "rm", "sleep"):
        (programs / name).symlink_to(shutil.which(name) or name)
    folder = tmp_path / "task"
    (folder / "work").mkdir(parents=True)
    os.mkfifo(folder / "work" / "started")
    service = Service(
        "s", f"read -r line < started\nrm {shlex.quote(str(programs))}/bash\nexit 1", probe="false"
    )
    command = f"echo > started\n{_until_logged('cannot start service')}exit 7"
    planned = replace(plan(folder, command), services=(PlannedService(0, service),))
    run = run_task(planned, env={"PATH": str(programs)})
    assert run.process.returncode == 7
    said = next(line for line in run.runtime_log if "cannot start service" in line)
    assert said.startswith("[WARNING] cannot start service 's': /")
    assert said.endswith(": No such file or directory")


@pytest.mark.parametrize(
    ("restart", "code", "starts"),
    [("never", 1, 1), ("on-failure", 0, 1), ("on-failure", 1, 2), ("always", 0, 2)],
)
def test_a_service_starts_again_as_its_plan_says(
    tmp_path: Path, restart: str, code: int, starts: int
) -> None:
    folder = tmp_path / "task"
    (folder / "work").mkdir(parents=True)
    for number in range(starts):
        os.mkfifo(folder / "work" / f"start{number}")
    script = f"n=$(cat count || echo 0)\necho $((n + 1)) > count\necho started > start$n\nexit {code}"
    service = Service("s", script, restart=restart)  # type: ignore[arg-type]
    command = "".join(f"read line < start{number}; echo $line\n" for number in range(starts))
    run = _with(folder, service, command=command)
    assert run.stdout_log == b"started\n" * starts
    again = any("restarted in 1 s" in line for line in run.runtime_log)
    assert again == (starts == 2)


def test_a_service_that_fails_does_not_fail_the_job(tmp_path: Path) -> None:
    run = _with(
        tmp_path,
        Service("s", "exit 3", restart="never"),
        command=_until_logged("not restarted") + "echo ran",
    )
    assert (run.process.returncode, run.stdout_log) == (0, b"ran\n")
    assert "[WARNING] service 's' ended with exit code 3; it is not restarted" in run.runtime_log


@pytest.mark.parametrize(
    ("service", "known"),
    [
        (
            Service("s", "exit 0", probe="false", restart="never"),
            "it ended before it was ready; it is not restarted",
        ),
        (Service("s", "exit 3", probe="false"), "exit code 3; it is restarted"),
        (Service("s", "exit 3", restart="never"), "exit code 3; it is not restarted"),
        (
            Service("s", "echo a; echo no curves here; exit 0", probe="false", restart="never"),
            "it ended before it was ready; it is not restarted; it said: no curves here",
        ),
        (Service("s", "sleep 1000", probe="false", ready_within=0), "not ready after 0 s"),
        (Service("s", "exit 0", restart="never"), None),
        (Service("s", "sleep 1000", probe="[ -e now ]"), None),
    ],
    ids=["ends early", "is restarted", "fails", "says why", "is late", "ends in order", "is not ready yet"],
)
def test_the_state_says_why_a_service_failed(tmp_path: Path, service: Service, known: str | None) -> None:
    told = "serviceFailed" if known else "serviceEnded" if service.probe is None else "serviceStarted"
    command = f"until grep -q {told} ../events.jsonl; do sleep 0.02; done; cat ../state.json"
    run = _with(tmp_path, replace(service, address="http://here"), command=command)
    state = json.loads(run.stdout_log)
    assert state["failedServices"] == ({"s": known} if known else {})
    assert not (known and state["addresses"])


@pytest.mark.parametrize(("served_at", "host"), [(None, "worker-0"), ("127.0.0.1", "127.0.0.1")])
def test_the_address_of_a_service_is_where_people_reach_it(
    tmp_path: Path, served_at: str | None, host: str
) -> None:
    service = Service(
        "s", "touch up; sleep 1000", probe="[ -e up ]", address="http://$PAI_CURRENT_CONTAINER_IP"
    )
    command = "until grep -q serviceReady ../events.jsonl; do sleep 0.02; done; cat ../state.json"
    one = replace(plan(tmp_path, command), services=(PlannedService(0, service),))
    variables = {"PAI_CURRENT_CONTAINER_IP": "worker-0"}
    run = run_task(one, LaunchOptions(served_at=served_at, variables=variables))
    assert json.loads(run.stdout_log)["addresses"] == {"s": f"http://{host}"}


def test_a_service_that_becomes_ready_later_has_not_failed(tmp_path: Path) -> None:
    script = "[ -e once ] || { touch once; exit 1; }\ntouch up; sleep 1000"
    service = Service("s", script, probe="[ -e up ]", address="http://here")
    command = "until grep -q serviceReady ../events.jsonl; do sleep 0.02; done; cat ../state.json"
    run = _with(tmp_path, service, command=command)
    state = json.loads(run.stdout_log)
    assert (state["addresses"], state["failedServices"]) == ({"s": "http://here"}, {})
    assert b"serviceFailed" in (run.folder / "events.jsonl").read_bytes()


def test_lines_of_a_service_and_of_a_step_do_not_mix(tmp_path: Path) -> None:
    service = Service("s", "printf half; touch up; sleep 1000", probe="[ -e up ]", required=True)
    run = _with(tmp_path, service, exits="echo whole line")
    assert "whole line" in run.runtime_log


def test_a_service_sees_the_environment_and_its_secrets_are_masked(tmp_path: Path) -> None:
    service = Service("s", 'echo "$SET by \0y\0"; touch up; sleep 1000', probe="[ -e up ]", required=True)
    given = replace(
        plan(tmp_path, "true", [shell("taskStarts", 0, "export SET=here")]),
        services=(PlannedService(1, service),),
    )
    run = run_task(given, secrets={"y": "sesame-open"})
    assert "here by ******" in run.runtime_log


def test_a_service_for_silence_starts_once_the_command_has_written_nothing_for_that_long(
    tmp_path: Path,
) -> None:
    service = Service(
        "watch", 'echo "[NOTE] it is silent"; test -e "$PAI_USER_LOG" && touch seen', when_silent=0.2
    )
    quiet = _with(tmp_path / "quiet", service, command="echo begin\nuntil [ -e seen ]; do sleep 0.02; done")
    assert quiet.process.returncode == 0
    assert quiet.record["notes"] == ["it is silent"]
    loud = _with(tmp_path / "loud", replace(service, when_silent=1000), command="true")
    assert "notes" not in loud.record
    assert not any("[NOTE]" in line for line in loud.runtime_log)


def test_where_the_command_is_is_kept_as_it_was_said_last(tmp_path: Path) -> None:
    says = "printf '[AT] there\n[AT] \n[AT] \033here ******\n'; touch seen; sleep 1000"
    run = _with(tmp_path, Service("s", says), command="until [ -e seen ]; do sleep 0.02; done")
    assert run.record["at"] == "\ufffdhere ******"
    assert "notes" not in run.record


def test_each_note_is_kept_once_and_not_many_of_them(tmp_path: Path) -> None:
    says = "for i in 1 1 2 3 4 5 6 7 8 9 10 11 12; do printf '[NOTE] \\033[1m%s\\n' $i; done\n"
    says += "touch seen; sleep 1000"
    run = _with(tmp_path, Service("s", says), command="until [ -e seen ]; do sleep 0.02; done")
    assert run.record["notes"] == [f"\ufffd[1m{number}" for number in range(1, 11)]
