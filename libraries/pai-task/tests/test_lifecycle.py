"""The lifecycle: which callbacks run, in which order, and what the task's result is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pai_task.analysis import Analysis
from pai_task.exit_codes import CALLBACK_FAILED, SETUP_FAILED, TIMEOUT
from pai_task.plan import EVENTS, Plan, PlannedService, Service, Step
from pai_task.supervisor.lifecycle import run_task as run_lifecycle
from pai_task.vocabulary import Event, FailurePolicy, Phase, StopReason
from tests.task_harness import Pretend, plan, run_task, shell


def _plan(policy: FailurePolicy = "fail", phases: Sequence[Phase] = EVENTS) -> Plan:
    """Every use has a step in every phase."""
    steps = [shell(phase, number, "true", policy) for number in range(3) for phase in phases]
    return plan(Path("/nowhere"), steps=steps)


def _each(phase: str, uses: str) -> list[str]:
    return [f"{phase} {use}" for use in uses]


_STARTS = _each("taskStarts", "abc")
_OK = [*_STARTS, "command", *_each("taskSucceeds", "cba"), *_each("taskExits", "cba")]
_FAILED = [*_STARTS, "command", *_each("taskFails", "cba"), *_each("taskExits", "cba")]


def _stopped(uses: str) -> list[str]:
    """A setup that fails at the last of `uses`."""
    back = uses[::-1]
    return [*_each("taskStarts", uses), *_each("taskFails", back), *_each("taskExits", back)]


@pytest.mark.parametrize(
    ("failing", "policy", "ran", "outcome", "code"),
    [
        ({}, "fail", _OK, "ok", 0),
        ({"taskStarts a": 1}, "fail", _stopped("a"), "setup-failed", SETUP_FAILED),
        ({"taskStarts b": 9}, "fail", _stopped("ab"), "setup-failed", SETUP_FAILED),
        ({"taskStarts c": 1}, "fail", _stopped("abc"), "setup-failed", SETUP_FAILED),
        ({"taskStarts b": 9}, "ignore", _OK, "ok", 0),
        ({"command": 3}, "fail", _FAILED, "failed", 3),
        ({"command": 3}, "ignore", _FAILED, "failed", 3),
        ({"taskSucceeds b": 5}, "fail", _OK, "ok", 0),
        ({"taskSucceeds b": 5}, "ignore", _OK, "ok", 0),
        ({"command": 3, "taskFails c": 5}, "fail", _FAILED, "failed", 3),
        ({"command": 3, "taskFails c": 5}, "ignore", _FAILED, "failed", 3),
        ({"taskExits c": 5, "taskExits a": 6}, "fail", _OK, "ok", 0),
        ({"taskExits c": 5}, "ignore", _OK, "ok", 0),
        (
            {"taskStarts b": 1, "taskFails b": 1, "taskExits b": 1},
            "fail",
            _stopped("ab"),
            "setup-failed",
            240,
        ),
        ({"command": 3, **dict.fromkeys(_FAILED[4:], 1)}, "fail", _FAILED, "failed", 3),
    ],
)
def test_whatever_fails_every_callback_of_every_started_use_runs(
    failing: dict[str, int], policy: FailurePolicy, ran: list[str], outcome: str, code: int
) -> None:
    runner = Pretend(failing)
    result, failures = run_lifecycle(_plan(policy), runner, lambda _: None)
    assert runner.ran == ran
    assert (result.outcome, result.code) == (outcome, code)
    after = [name for name in ran if name in failing and not name.startswith(("taskStarts", "command"))]
    assert [f"{failure.phase} {failure.use.name}" for failure in failures] == (
        after if policy == "fail" else []
    )


@pytest.mark.parametrize(
    ("failing", "policy", "outcome", "code", "decided"),
    [
        ({}, "fail", "ok", 0, "command"),
        ({"taskSucceeds b": 5, "taskExits a": 6}, "fail", "failed", CALLBACK_FAILED, "taskSucceeds"),
        ({"taskExits a": 6}, "fail", "failed", CALLBACK_FAILED, "taskExits"),
        ({"taskSucceeds b": 5}, "ignore", "ok", 0, "command"),
        ({"command": 3, "taskFails b": 5}, "fail", "failed", 3, "command"),
        ({"taskStarts a": 1, "taskExits a": 5}, "fail", "setup-failed", SETUP_FAILED, "taskStarts"),
    ],
)
def test_with_strict_callbacks_one_that_fails_fails_a_task_that_had_not(
    failing: dict[str, int], policy: FailurePolicy, outcome: str, code: int, decided: Phase
) -> None:
    runner = Pretend(failing)
    given = replace(_plan(policy), strict_callbacks=True)
    result, failures = run_lifecycle(given, runner, lambda _: None)
    assert (result.outcome, result.code, result.phase) == (outcome, code, decided)
    assert runner.on_disk == result
    if code == CALLBACK_FAILED:
        assert (result.user_code, result.failed) == (0, failures[0].use)
        assert set(runner.told[3:]) == {"ok"}, "the command has succeeded, and callbacks are told of that"


@pytest.mark.parametrize(
    ("stop_at", "reason", "ran", "outcome", "code"),
    [
        ("taskStarts b", "cancelled", [*_STARTS[:2], *_each("taskExits", "ba")], "cancelled", 143),
        ("taskStarts b", "timeout", _stopped("ab"), "timeout", TIMEOUT),
        ("command", "cancelled", [*_STARTS, "command", *_each("taskExits", "cba")], "cancelled", 143),
        ("command", "timeout", _FAILED, "timeout", TIMEOUT),
        ("taskSucceeds c", "cancelled", _OK, "ok", 0),
        ("taskExits c", "timeout", _OK, "ok", 0),
    ],
)
def test_being_told_to_stop_decides_the_outcome_until_the_command_has_ended(
    stop_at: str, reason: StopReason, ran: list[str], outcome: str, code: int
) -> None:
    runner = Pretend({}, stop_at, reason)
    result, _ = run_lifecycle(_plan(), runner, lambda _: None)
    assert (runner.ran, result.outcome, result.code) == (ran, outcome, code)


@pytest.mark.parametrize(
    ("index", "command", "given", "ran"),
    [
        (0, 0, {}, ["runEnds a"]),
        (1, 0, {}, []),
        (0, 3, {}, ["runEnds a"]),
        (1, 3, {}, ["waits 6", "runEnds a"]),
        (0, 3, {"is_first": False}, ["waits 3", "runEnds a"]),
        (1, 3, {"gang": False}, ["runEnds a"]),
        (1, 3, {"is_cancelled": True}, ["waits 6"]),
        (0, 3, {"because_of_peer": True}, []),
        (0, 3, {"supervised": True}, []),
    ],
)
def test_without_a_run_supervisor_a_task_tells_of_a_run_that_ends_by_it(
    index: int, command: int, given: dict[str, bool], ran: list[str]
) -> None:
    steps = [shell("analysis", 0, "true"), shell("runEnds", 0, "true")]
    gang = given.get("gang", True)
    own = plan(Path("/nowhere"), steps=steps)
    first = "worker" if given.get("is_first", True) else "ps"
    uses = tuple(replace(each, roles=(first, "worker")) for each in own.uses)
    own = replace(own, index=index, gang=gang, uses=uses)
    runner = Pretend({"command": command})
    runner.knows["a"] = Analysis(
        code=command, phrase="Known", reason="", because_of_peer=given.get("because_of_peer", False)
    )
    runner.supervised, runner.is_cancelled = given.get("supervised", False), given.get("is_cancelled", False)
    run_lifecycle(own, runner, lambda _: None)
    assert [each for each in runner.ran if each.startswith(("runEnds", "waits"))] == ran


def test_init_steps_run_before_all_start_steps_and_a_failed_one_starts_nothing_else() -> None:
    runner = Pretend({"init b": 1})
    result, _ = run_lifecycle(_plan(phases=("init", *EVENTS)), runner, lambda _: None)
    assert runner.ran == ["init a", "init b", *_each("taskFails", "ba"), *_each("taskExits", "ba")]
    assert (result.outcome, result.phase) == ("setup-failed", "init")


def test_a_use_without_start_step_has_started_when_its_turn_has_come() -> None:
    steps = [shell("taskStarts", 1, "true"), *(shell("taskExits", number, "true") for number in range(3))]
    runner = Pretend({"taskStarts b": 1})
    run_lifecycle(plan(Path("/nowhere"), steps=steps), runner, lambda _: None)
    assert runner.ran == ["taskStarts b", "taskExits b", "taskExits a"]


def test_callbacks_are_told_the_outcome_once_there_is_one() -> None:
    runner = Pretend({"command": 1})
    run_lifecycle(_plan(), runner, lambda _: None)
    assert runner.told == [None, None, None, *["failed"] * 6]


def test_services_start_after_the_start_steps_of_their_use_and_a_required_one_can_fail_the_setup() -> None:
    services = (PlannedService(0, Service("s", "true")), PlannedService(1, Service("t", "true")))
    runner = Pretend({"service t": 1})
    result, _ = run_lifecycle(replace(_plan(), services=services), runner, lambda _: None)
    setup = ["taskStarts a", "service s", "taskStarts b", "service t"]
    assert runner.ran == [*setup, *_each("taskFails", "ba"), *_each("taskExits", "ba")]
    assert "the service 't' of 'b'" in result.message


def test_the_hook_of_a_use_finds_the_services_of_its_use_started() -> None:
    hook = Step("taskStarts", 0, "fail", hook="pai_task_starts")
    steps = (hook, shell("taskStarts", 0, "true"), shell("taskStarts", 1, "true"))
    services = (PlannedService(0, Service("s", "true")),)
    runner = Pretend({})
    run_lifecycle(replace(_plan(), steps=steps, services=services), runner, lambda _: None)
    assert runner.ran == ["taskStarts a", "service s", "taskStarts a", "taskStarts b", "command"]


@pytest.mark.process
@pytest.mark.parametrize("failing", EVENTS)
def test_a_callback_that_may_fail_goes_on_after_the_failure_and_so_does_the_task(
    tmp_path: Path, failing: Event
) -> None:
    steps = [
        shell(
            phase,
            number,
            f"echo {phase} {name}\n{'(exit 9)' if phase == failing else ':'}\necho on",
            "ignore",
        )
        for number, name in enumerate("ab")
        for phase in EVENTS
    ]
    code = 3 if failing == "taskFails" else 0
    run = run_task(plan(tmp_path, f"exit {code}", steps, uses=2))
    ran = [
        *_each("taskStarts", "ab"),
        *_each("taskFails" if code else "taskSucceeds", "ba"),
        *_each("taskExits", "ba"),
    ]
    assert [line for line in run.runtime_log if not line.startswith("[")] == [
        line for each in ran for line in (each, "on")
    ]
    assert (run.process.returncode, run.record["exitCode"]) == (code, code)
    assert "callbackFailures" not in run.record
