"""One task from its plan to its exit record: the lifecycle with real processes, logs and secrets."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pai_runtime.task import placeholders
from pai_runtime.task.exit_record import exit_record, write_whole
from pai_runtime.task.interpreter import python_argv
from pai_runtime.task.lifecycle import RUNTIME_ERROR, Result, run_task
from pai_runtime.task.logs import Logs, Rotation
from pai_runtime.task.loop import Ended, Loop
from pai_runtime.task.masking import Masks
from pai_runtime.task.plan import Command, Plan, PlanError, Step, UseRecord
from pai_runtime.task.processes import Processes
from pai_runtime.task.shell import SCRIPT_FD, NoShell, ScratchFile, Shell, exported
from pai_runtime.task.stop import Stop, StopReason

CANNOT_START = 126


@dataclass(frozen=True)
class Options:
    """How this run of the task goes; times in seconds.

    `grace` is the time between SIGTERM and SIGKILL, `exit_budget` what the exit callbacks may take once the
    task has been told to stop, `prefix` stands before each line that is passed on.
    """

    timeout: float | None = None
    grace: float = 10
    exit_budget: float = 30
    prefix: str = ""
    rotation: Rotation = field(default_factory=Rotation)


def supervise(folder: Path, options: Options) -> int:
    """Run the task whose ``plan.json`` is in `folder`, in its ``work`` folder; its exit code.

    ``secrets.json``, where there is one, maps the path of each secret to its value; it is removed once read.
    """
    script = ScratchFile()
    if script.fd != SCRIPT_FD:
        os.dup2(script.fd, SCRIPT_FD)
    stop = Stop(options.timeout, options.exit_budget)
    try:
        plan = Plan.from_json(json.loads((folder / "plan.json").read_bytes()))
        secrets = _take_secrets(folder / "secrets.json")
        os.chdir(folder / "work")
    except (OSError, ValueError, PlanError) as error:
        return _cannot_run(folder, f"the plan in {folder} cannot be run: {error}")
    masks = Masks(secrets.values())
    logs = Logs(folder / "logs", masks, options.prefix, options.rotation)
    processes = Processes(Loop(), options.grace, stop, logs.runtime, script)
    try:
        runner = _Runner(plan, secrets, logs, processes, stop)
    except (NoShell, KeyError) as error:
        what = f"no value is given for the secret {error}" if isinstance(error, KeyError) else str(error)
        logs.runtime.say(f"[ERROR] {what}")
        return _cannot_run(folder, what)
    try:
        result, failures = run_task(plan, runner, logs.runtime.say)
    except Exception as error:  # noqa: BLE001 - a fault of ours must leave a record too
        logs.runtime.say(f"[ERROR] {traceback.format_exc()}")
        return _cannot_run(folder, masks.mask(f"a fault in the runtime itself: {error!r}"))
    finally:
        processes.end()
    _write_record(folder, exit_record(result, failures, logs.tails(), masks.mask))
    return result.code


class _Runner:
    """The `Runner` of a real task. Its environment goes from step to step."""

    def __init__(
        self, plan: Plan, secrets: Mapping[str, str], logs: Logs, processes: Processes, stop: Stop
    ) -> None:
        self._plan = plan
        self._secrets = secrets
        self._logs = logs
        self._processes = processes
        self._stop = stop
        self._kept = ScratchFile()
        contributed = {variable.name: variable.value for variable in plan.environment}
        self._environment: dict[str, str] = {
            **os.environ,
            **placeholders.fill(contributed, secrets),
            "PAI_WORK_DIR": str(Path.cwd()),
        }
        self._shell = Shell(self._environment)

    def step(self, step: Step, use: UseRecord, result: Result | None) -> Ended:
        """Run a script, or the plugin's hook in an interpreter of its own."""
        if self._stop.at_once:
            return Ended(128 + signal.SIGKILL, signal.SIGKILL)
        environment = {**self._environment, "PAI_TASK_PHASE": step.phase}
        if result is not None:
            environment |= {"PAI_TASK_OUTCOME": result.outcome, "PAI_TASK_EXIT_CODE": str(result.code)}
        if step.hook is not None:
            argv = python_argv("pai_runtime.host.run_hook", step.hook, self._plan.folder, str(step.use))
            data = json.dumps(self._secrets).encode()
        else:
            argv = self._shell.step(use.name, self._kept.fd, stop_at_error=step.failure_policy == "fail")
            data = os.fsencode(placeholders.fill(step.script, self._secrets))
        self._kept.write(b"")
        stop_at = self._stop.work_until if result is None else self._stop.exits_until
        try:
            ended = self._processes.run_step(argv, environment, data, (self._kept.fd,), stop_at)
        except OSError as error:
            return self._cannot_start(argv, error)
        own = {name: self._environment[name] for name in _OUTCOME if name in self._environment}
        after = exported(self._kept.read(), self._environment)
        self._environment = {name: value for name, value in after.items() if name not in _OUTCOME} | own
        return ended

    def command(self, command: Command) -> Ended:
        """Run the user's command."""
        script = os.fsencode(placeholders.fill(command.script, self._secrets))
        argv = self._shell.command("command")
        streams = self._logs.stdout, self._logs.stderr
        try:
            return self._processes.run_command(
                argv, self._environment, script, *streams, self._stop.work_until
            )
        except OSError as error:
            return self._cannot_start(argv, error)

    def told_to_stop(self) -> tuple[StopReason, int | None] | None:
        """Whether the task has been told to stop, and by which signal."""
        reason = self._stop.reason()
        return (reason, self._stop.signal) if reason else None

    def _cannot_start(self, argv: list[str], error: OSError) -> Ended:
        self._logs.runtime.say(f"[ERROR] {argv[0]} cannot be started: {error.strerror}")
        return Ended(CANNOT_START)


_OUTCOME = ("PAI_TASK_PHASE", "PAI_TASK_OUTCOME", "PAI_TASK_EXIT_CODE")


def _take_secrets(path: Path) -> dict[str, str]:
    try:
        secrets: dict[str, str] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    path.unlink()
    return secrets


def _cannot_run(folder: Path, message: str) -> int:
    sys.stderr.write(f"pai-runtime: {message}\n")
    result = Result("setup-failed", RUNTIME_ERROR, "init", message=message)
    _write_record(folder, exit_record(result))
    return RUNTIME_ERROR


def _write_record(folder: Path, text: str) -> None:
    try:
        write_whole(folder / "exit.yaml", text)
    except OSError as error:
        sys.stderr.write(f"pai-runtime: {folder / 'exit.yaml'} cannot be written: {error.strerror}\n{text}")
