"""The lifecycle of a task: the order of callbacks around the user's command, and the outcome. Pure.

1. Init steps, then start steps, in order of the uses: the scripts of each, its services, its hook. A step
   that fails with failure policy ``fail`` ends the setup: outcome ``setup-failed``, and the command does not
   run.
2. The command: ``ok`` with code 0, else ``failed``; ``cancelled`` or ``timeout`` when told to stop.
3. Plugins say why a task failed that ended in any other way and was not cancelled.
4. A task that failed is held, if its plan says so.
5. ``taskSucceeds`` after ``ok``, ``taskFails`` after anything else but ``cancelled``, then ``taskExits``
   always: for every use that was started, in reverse order, whatever else fails.
6. With strict callbacks, ``ok`` becomes ``failed`` if any of these has failed.
7. ``runEnds``, if no run supervisor does that and no other task is to do it.

Where the platform knows a list of exit codes only, what no rule explains, or explains by another code, ends
with `UNEXPLAINED`: a platform takes a code of the user's for one of its own.
"""

from __future__ import annotations

from pai_task.exit_codes import (
    CALLBACK_FAILED,
    RUNTIME_ERROR,
    SETUP_FAILED,
    TIMEOUT,
    UNEXPLAINED,
    killed_by,
)
from pai_task.outcome import CallbackFailure, Result, how_it_failed
from pai_task.record import record, replace
from pai_task.runtime_log import EXPLAINED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from pai_task.analysis import Analysis
    from pai_task.plan import Command, Plan, Service, Step, UseRecord
    from pai_task.supervisor.loop import ExitStatus
    from pai_task.vocabulary import Event, Outcome, Phase, StopReason
else:
    Protocol = object

_OTHERS_FIRST = 3.0
"""Seconds that the first task of a role other than the first waits before ``runEnds``: if it is ended
meanwhile, the task that failed before it runs the steps. All other tasks wait twice as long."""
_EXPLAINABLE = ("failed", "setup-failed", "timeout")
"""The outcomes that plugins are asked to explain (`FailedOutcome`)."""


@record(frozen=True)
class SetUp:
    """The state of the setup: the uses that were started, and the result if it is already decided."""

    started: tuple[int, ...] = ()
    result: Result | None = None


class Runner(Protocol):
    """The operations that the lifecycle needs of the operating system."""

    def step(self, step: Step, use: UseRecord, result: Result | None) -> ExitStatus:
        """Run one step to its end; `result` is None before the outcome is known."""

    def start_service(self, service: Service, use: UseRecord) -> bool:
        """Start a background process of a use; return whether the task may continue."""

    def command(self, command: Command) -> ExitStatus | None:
        """Run the user's command to its end; return None if it could not be started."""

    def decided(self, result: Result) -> None:
        """Record the outcome on disk now, whatever happens afterwards."""

    def analyze(self, step: Step, use: UseRecord, result: Result) -> Analysis | None:
        """Ask a plugin why the task failed; return None if it does not know, or fails."""

    def hold(self, result: Result) -> None:
        """Keep the task as it is, for as long as its plan says or until it is released or told to stop."""

    def told_to_stop(self) -> tuple[StopReason, int | None] | None:
        """Return why the task has been told to stop, and by which signal; None if it has not been."""

    def is_supervised(self) -> bool:
        """Return whether a run supervisor runs the steps for the end of the run."""

    def is_cancelled_within(self, seconds: float) -> bool:
        """Wait for a signal that ends the task, for at most so long; return whether there has been one."""

    def limit(self) -> str:
        """Return whose timeout ends the task, for people; empty for its own or the run's."""


def run_init(plan: Plan, runner: Runner, say: Callable[[str], None]) -> SetUp:
    """Run the init steps, and return the state of the setup."""
    started: dict[int, None] = {}
    for step in plan.steps_of("init"):
        started[step.use] = None
        if result := _start(plan, step, runner, say):
            return SetUp(tuple(sorted(started)), result)
    return SetUp(tuple(sorted(started)))


def run_task(
    plan: Plan, runner: Runner, say: Callable[[str], None], init: SetUp | None = None
) -> tuple[Result, tuple[CallbackFailure, ...]]:
    """Run the plan, without its init steps if they ran before; return the result and failed callbacks."""
    for warning in plan.warnings:
        say(f"[WARNING] {warning}")
    init = init or run_init(plan, runner, say)
    set_up = init if init.result else _start_uses(plan, init.started, runner, say)
    result = set_up.result or _run_command(plan.command, runner, say)
    runner.decided(_told(plan, result))
    if result.outcome in _EXPLAINABLE:
        result = _explained(plan, result, runner)
        runner.decided(_told(plan, result))
        _say_why(result.analysis, say)
    result = _told(plan, result, say)
    if plan.hold and result.outcome in ("failed", "setup-failed"):
        runner.hold(result)
    failures = tuple(_finish(plan, set_up.started, result, runner, say))
    if plan.strict_callbacks and result.outcome == "ok" and failures:
        result = _told(plan, _failed_by(failures[0], result), say)
        runner.decided(result)
    _end_run(plan, result, runner, say)
    return result, failures


def _failed_by(failure: CallbackFailure, result: Result) -> Result:
    """Return the result of a task whose command succeeded and a callback of which failed."""
    how = how_it_failed(failure.code, failure.cut_short)
    message = f"the command succeeded, but {failure.phase} of {failure.use.label} {how}"
    return Result(
        "failed", CALLBACK_FAILED, failure.phase, result.user_code, failed=failure.use, message=message
    )


def _explained(plan: Plan, result: Result, runner: Runner) -> Result:
    """Return the result with the analysis of the first plugin that has one."""
    for step in plan.steps_of("analysis"):
        if analysis := runner.analyze(step, plan.uses[step.use], result):
            return replace(result, code=analysis.code, analysis=analysis)
    return result


def _told(plan: Plan, result: Result, say: Callable[[str], None] | None = None) -> Result:
    """Return the result for the platform, with an exit code that it knows."""
    is_known = result.analysis is not None or result.outcome == "cancelled"
    if plan.listed_codes is None or result.outcome == "ok" or (is_known and result.code in plan.listed_codes):
        return result
    if say:
        why = "the exit spec of the cluster does not list it" if is_known else "no rule explains it"
        say(f"[INFO] exit code {result.code} is told to the platform as {UNEXPLAINED}: {why}")
    return replace(result, code=UNEXPLAINED)


def _say_why(analysis: Analysis | None, say: Callable[[str], None]) -> None:
    if analysis:
        reason = f": {analysis.reason}" if analysis.reason else ""
        say(f"{EXPLAINED}{analysis.code}, {analysis.phrase}{reason}")
        if analysis.solution:
            say("[INFO] what to do:")
        for solution in analysis.solution:
            say(f"[INFO] - {solution}")


def _start_uses(
    plan: Plan, initialised: tuple[int, ...], runner: Runner, say: Callable[[str], None]
) -> SetUp:
    say("[INFO] Starting to exec precommands")
    started = set(initialised)
    for use in range(len(plan.uses)):
        if stopped := _stopped(runner, "taskStarts"):
            return SetUp(tuple(sorted(started)), stopped)
        started.add(use)
        if result := _start_use(plan, use, runner, say):
            return SetUp(tuple(sorted(started)), result)
    say("[INFO] Precommands finished")
    return SetUp(tuple(sorted(started)), _stopped(runner, "taskStarts"))


def _start_use(plan: Plan, use: int, runner: Runner, say: Callable[[str], None]) -> Result | None:
    steps = plan.steps_of("taskStarts", use)
    for step in steps:
        if step.hook is None and (result := _start(plan, step, runner, say)):
            return result
    if result := _start_services(plan, use, runner):
        return result
    for step in steps:
        if step.hook is not None and (result := _start(plan, step, runner, say)):
            return result
    return None


def _start(plan: Plan, step: Step, runner: Runner, say: Callable[[str], None]) -> Result | None:
    use = plan.uses[step.use]
    ended = runner.step(step, use, None)
    if stopped := _stopped(runner, step.phase):
        return stopped
    if ended.code == 0:
        return None
    _say_failed(step, use, ended, say)
    if step.failure_policy == "ignore":
        return None
    return Result(
        "setup-failed",
        SETUP_FAILED,
        step.phase,
        signal=ended.signal,
        failed=use,
        message=f"{step.phase} of {use.label} ended with exit code {ended.code}; the command was not run",
    )


def _start_services(plan: Plan, number: int, runner: Runner) -> Result | None:
    use = plan.uses[number]
    for planned in plan.services:
        if planned.use == number and not runner.start_service(planned.service, use):
            if stopped := _stopped(runner, "taskStarts"):
                return stopped
            message = (
                f"the service '{planned.service.name}' of {use.label} is not ready; the command was not run"
            )
            return Result("setup-failed", SETUP_FAILED, "taskStarts", failed=use, message=message)
    return None


def _run_command(command: Command, runner: Runner, say: Callable[[str], None]) -> Result:
    say("[INFO] USER COMMAND START")
    ended = runner.command(command)
    say("[INFO] USER COMMAND END")
    if stopped := _stopped(runner, "command", ended):
        return stopped
    if ended is None:
        message = "the command could not be started; runtime.log says why"
        return Result("failed", RUNTIME_ERROR, "command", message=message)
    if ended.code == 0:
        return Result("ok", 0, "command", 0)
    how = f"was killed by signal {ended.signal}" if ended.signal else f"ended with exit code {ended.code}"
    return Result("failed", ended.code, "command", ended.code, ended.signal, message=f"the command {how}")


def _stopped(runner: Runner, phase: Phase, ended: ExitStatus | None = None) -> Result | None:
    told = runner.told_to_stop()
    if told is None:
        return None
    reason, number = told
    user_code = ended.code if ended else None
    if reason == "timeout":
        message = f"the task timed out in {phase}"
        if limit := runner.limit():
            message += f", before the time limit of {limit}"
        return Result("timeout", TIMEOUT, phase, user_code, message=message)
    return Result(
        "cancelled",
        killed_by(number or 0),
        phase,
        user_code,
        number,
        message=f"the task was cancelled in {phase}",
    )


def _finish(
    plan: Plan, started: tuple[int, ...], result: Result, runner: Runner, say: Callable[[str], None]
) -> Iterator[CallbackFailure]:
    for event in exit_events(result.outcome):
        for use in reversed(started):
            for step in plan.steps_of(event, use):
                ended = runner.step(step, plan.uses[use], result)
                if ended.code:
                    _say_failed(step, plan.uses[use], ended, say)
                    if step.failure_policy == "fail":
                        yield CallbackFailure(plan.uses[use], event, ended.code, ended.cut_short)


def _end_run(plan: Plan, result: Result, runner: Runner, say: Callable[[str], None]) -> None:
    """Run the steps for the end of the run, where no run supervisor does that once for all tasks.

    A task that failed because of another one, or is ended because of it, leaves that to the other.
    """
    steps = plan.run_ends(alone=result.outcome != "ok")
    if not steps or result.outcome == "cancelled" or runner.is_supervised():
        return
    if result.analysis and result.analysis.because_of_peer:
        return
    is_first = any(plan.is_first_of(plan.uses[step.use]) for step in steps)
    seconds = _OTHERS_FIRST * (2 if plan.index else 1)
    if plan.gang and not is_first and runner.is_cancelled_within(seconds):
        return
    for step in steps:
        if (ended := runner.step(step, plan.uses[step.use], result)).code:
            _say_failed(step, plan.uses[step.use], ended, say)


def exit_events(outcome: Outcome) -> tuple[Event, ...]:
    """Return the events that follow an outcome, in order."""
    if outcome == "ok":
        return ("taskSucceeds", "taskExits")
    if outcome == "cancelled":
        return ("taskExits",)
    return ("taskFails", "taskExits")


def _say_failed(step: Step, use: UseRecord, ended: ExitStatus, say: Callable[[str], None]) -> None:
    kind = "WARNING" if step.failure_policy == "ignore" else "ERROR"
    ignored = ", ignored by its failurePolicy" if step.failure_policy == "ignore" else ""
    how = how_it_failed(ended.code, ended.cut_short)
    say(f"[{kind}] {step.phase} of {use.label} {how}{ignored}")
