"""The `Runner` of a real task, which runs its steps, services and command as processes."""

from __future__ import annotations

import sys
import time

from pai_task.exit_codes import killed_by
from pai_task.exit_record import exit_record
from pai_task.layout import RECORD
from pai_task.signals import signal
from pai_task.supervisor.environment import Environment
from pai_task.supervisor.hooks import hook_program
from pai_task.supervisor.loop import CANNOT_START, ExitStatus
from pai_task.supervisor.oom import OomKills
from pai_task.supervisor.recording import write_record
from pai_task.supervisor.spawning import CannotStart, Program
from pai_task.supervisor.usage import Usage, requested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pai_task.analysis import Analysis
    from pai_task.outcome import CallbackFailure, Result
    from pai_task.plan import Command, Service, Step, UseRecord
    from pai_task.supervisor.loop import Child
    from pai_task.supervisor.services import Services
    from pai_task.supervisor.task import Task
    from pai_task.vocabulary import Phase, StopReason

# What not every task needs is imported where it is; `supervisor` has loaded what is needed at the end.
# ruff: noqa: PLC0415

_LOOK_EVERY = 0.5
"""Seconds between two checks whether the task has been told to stop."""


class TaskRunner:
    """A runner of a task's steps, services and command as processes. Raises `NoShell`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._environment = Environment(task)
        self._services: Services | None = None
        self._oom_kills: OomKills | None = None
        self._usage: Usage | None = None
        self._is_begun = False
        if task.options.sessions_fd is not None:
            from pai_task.supervisor.sessions import Sessions

            shell = self._environment.shell.path
            Sessions(task.options.sessions_fd, task.loop, self._for_scripts, shell, self._let_ancestors_begin)

    def step(self, step: Step, use: UseRecord, result: Result | None) -> ExitStatus:
        """Run a script, or the plugin's hook in an interpreter of its own, and return its exit status."""
        if self._task.stop.at_once:
            return ExitStatus(killed_by(signal.SIGKILL), signal.SIGKILL, "skipped")
        where = self._begin(step, use)
        self._environment.before_step()
        stop = self._task.stop
        try:
            program = self._program(step, use, result)
            stop_at = stop.work_until if result is None else stop.exits_until
            ended = self._task.processes.run_step(program, stop_at, self._catch_up)
        except CannotStart as error:
            self._task.say(f"[ERROR] cannot start the step: {error}")
            ended = CANNOT_START
        else:
            self._environment.after_step(step, use)
            self._environment.keep()
        self._task.journal.add("stepEnded", **where, exitCode=ended.code, signal=ended.signal)
        return ended

    def start_service(self, service: Service, use: UseRecord) -> bool:
        """Start a background process; return whether the task may continue."""
        if self._services is None:
            from pai_task.supervisor.services import Services

            self._services = Services(self._task, self._environment.shell)
        return self._services.start(service, use, self._for_scripts())

    def command(self, command: Command) -> ExitStatus | None:
        """Run the user's command; return None if it could not be started."""
        self._enter("command")
        shell = self._environment.shell
        argv = shell.command("command", stop_at_error=True, nounset=command.nounset)
        script = self._task.script(command.script) if shell.reads_script else None
        program = Program(argv, self._variables(), script)
        streams = self._task.logs.stdout, self._task.logs.stderr
        self._task.journal.add("commandStarted")
        keeper = self._services.command_starts() if self._services else None
        try:
            ended = self._task.processes.run_command(
                program, streams, self._catch_up, self._saving(command), keeper
            )
        except CannotStart as error:
            self._task.say(f"[ERROR] cannot start the command: {error}")
            return None
        finally:
            if self._services:
                self._services.command_ended()
        self._task.journal.add("commandEnded", exitCode=ended.code, signal=ended.signal)
        return ended

    def _saving(self, command: Command) -> Callable[[Child], bool] | None:
        """Return what lets the command save its work before it is told to end; None if there is nothing."""
        if command.on_preemption is None:
            return None
        from pai_task.supervisor.saving import save_work

        wanted, shell = command.on_preemption, self._environment.shell
        argv = shell.command("onPreemption", stop_at_error=True)
        script = Program(argv, self._variables(), self._task.script(wanted.script)) if wanted.script else None
        return lambda child: save_work(self._task, wanted, script, child)

    def decided(self, result: Result) -> None:
        """Write a preliminary exit record, in case the supervisor is killed before the final one."""
        self._task.progress.result = result
        logs, folder = self._task.logs, self._task.folder
        failed = self._task.plan.uses.index(result.failed) if result.failed else None
        self._task.journal.add(
            "decided",
            outcome=result.outcome,
            exitCode=result.code,
            phase=result.phase,
            userExitCode=result.user_code,
            signal=result.signal,
            useIndex=failed,
            message=logs.masks.mask(result.message) or None,
            phrase=result.analysis and logs.masks.mask(result.analysis.phrase),
        )
        text = self._record(result)
        try:
            folder.write(f".{RECORD}", text, sync=False)
            folder.move(f".{RECORD}", folder, RECORD)
        except OSError:
            pass  # the last one may fit into what was reserved for it

    def analyze(self, step: Step, use: UseRecord, result: Result) -> Analysis | None:
        """Ask a plugin why the task failed; return None if it does not know, or fails."""
        from pai_task.supervisor.asking import ask, failure_of

        where = self._begin(step, use)
        kills, tails = self._count_oom_kills().since(), self._task.logs.tails()
        failure = failure_of(result, kills, tails, self._task.options.logs)
        found = ask(self._task, step, use, failure, self._variables())
        self._task.journal.add("stepEnded", **where)
        return found

    def hold(self, result: Result) -> None:
        """Hold the task for debugging, as its plan says."""
        from pai_task.supervisor.hold import hold

        self._task.say(f"[ERROR] {result.message}")
        hold(self._task, "held", self._task.plan.hold)

    def told_to_stop(self) -> tuple[StopReason, int | None] | None:
        """Return why the task has been told to stop, and by which signal; None if it has not been."""
        reason = self._task.stop.reason()
        return (reason, self._task.stop.signal) if reason else None

    def is_supervised(self) -> bool:
        """Return whether a run supervisor runs the steps for the end of the run."""
        return self._task.options.supervised

    def is_cancelled_within(self, seconds: float) -> bool:
        """Wait for a signal that ends the task, for at most so long; return whether there has been one."""
        until = time.monotonic() + seconds
        while self._task.stop.signal is None and (now := time.monotonic()) < until:
            self._task.loop.turn(min(until, now + _LOOK_EVERY))
        return self._task.stop.signal is not None

    def limit(self) -> str:
        """Return whose timeout ends the task, for people; empty for its own or the run's."""
        return self._task.stop.limit

    def linger(self, result: Result, failures: tuple[CallbackFailure, ...]) -> None:
        """Keep services that outlive the task; the exit record is written before."""
        if self._services and self._services.may_linger() and self._task.stop.reason() is None:
            self.record(result, failures)
            self._services.linger()

    def record(self, result: Result, failures: tuple[CallbackFailure, ...]) -> None:
        """Write the exit record."""
        self._environment.keep()
        text = self._record(result, failures)
        for fault in write_record(self._task.folder, text, self._task.options):
            self._task.say(f"[WARNING] {fault}")

    def end(self) -> None:
        """End the services."""
        if self._services:
            self._services.end()

    def _record(self, result: Result, failures: tuple[CallbackFailure, ...] = ()) -> str:
        logs, progress = self._task.logs, self._task.progress
        return exit_record(
            result,
            failures,
            logs.tails(),
            logs.masks.mask,
            usage=self._used(),
            preemption=progress.preemption,
            notes=progress.notes,
            at=progress.at,
        )

    def _begin(self, step: Step, use: UseRecord) -> dict[str, Any]:
        """Announce the start of a step in logs and events; return the fields that its events share."""
        self._enter(step.phase)
        self._task.logs.runtime.source = f"{use.short_label} in {step.phase}"
        where = {"phase": step.phase, "use": use.name, "useIndex": step.use}
        self._task.journal.add("stepStarted", **where)
        return where

    def _enter(self, phase: Phase) -> None:
        progress = self._task.progress
        if phase != progress.phase or not self._is_begun:
            self._is_begun = True
            progress.phase = phase
            self._task.journal.add("phaseStarted", phase=phase)

    def _variables(self) -> dict[str, str]:
        return {**self._environment.variables, **self._task.paths()}

    def _of_scripts(self) -> dict[str, str]:
        """Return the variables for scripts that read the output of the command with our interpreter."""
        python = self._task.options.python or sys.executable
        return {"PAI_RUNTIME_PYTHON": python, "PAI_USER_LOG": self._task.user_log}

    def _for_scripts(self) -> dict[str, str]:
        return {**self._variables(), **self._of_scripts()}

    def _program(self, step: Step, use: UseRecord, result: Result | None) -> Program:
        environment = {**self._variables(), "PAI_TASK_PHASE": step.phase}
        if result is not None:
            environment |= {"PAI_TASK_OUTCOME": result.outcome, "PAI_TASK_EXIT_CODE": str(result.code)}
        files = {"PAI_ENV": self._environment.settings_fd}
        if step.hook is not None:
            record = self._record(result) if result else None
            succeeded = result.outcome == "ok" if result and step.phase == "runEnds" else None
            return hook_program(
                self._task.inputs, step, environment, files, record=record, has_succeeded=succeeded
            )
        if result is not None:
            environment |= self._of_scripts()
        argv = self._environment.shell.step(
            use.name, files, self._environment.exported_fd, stop_at_error=step.failure_policy == "fail"
        )
        fds = (self._environment.exported_fd, self._environment.settings_fd)
        return Program(argv, environment, self._task.script(step.script or ""), fds)

    def _let_ancestors_begin(self) -> None:
        """Start what only an ancestor of the command can do, as a program that people run may ask it."""
        if self._services:
            self._services.begin_ancestors()

    def _catch_up(self) -> None:
        """Do deferred work that neither a step nor the command has to wait for."""
        self._environment.keep()
        self._count_oom_kills()
        if self._usage is None:
            self._usage = Usage(self._task.loop, self._variables())

    def _used(self) -> dict[str, Any]:
        """Return what the task has used, and requests; empty if nothing of it has run."""
        if self._usage is None:
            return {}
        return {**self._usage.measured(), "requested": requested(self._task.plan)}

    def _count_oom_kills(self) -> OomKills:
        if self._oom_kills is None:
            self._oom_kills = OomKills(is_shared=self._task.options.shares_memory)
        return self._oom_kills
