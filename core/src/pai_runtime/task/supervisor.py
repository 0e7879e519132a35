"""One task from its plan to its exit record: the lifecycle with real processes, logs and secrets."""

import json
import os
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pai_runtime.task import placeholders
from pai_runtime.task.analysis import Analysis
from pai_runtime.task.exit_record import exit_record, reserve, termination_message, write_whole
from pai_runtime.task.family import end_with_parent
from pai_runtime.task.interpreter import python_argv
from pai_runtime.task.keeper import Keeper
from pai_runtime.task.lifecycle import RUNTIME_ERROR, Result, run_task
from pai_runtime.task.logs import Logs, Rotation
from pai_runtime.task.loop import CANNOT_START, CannotStart, Ended, Loop
from pai_runtime.task.masking import Masks
from pai_runtime.task.oom import OomKills
from pai_runtime.task.plan import (
    PEERS,
    PLATFORM,
    PRIVATE,
    Command,
    Plan,
    PlanError,
    Service,
    Step,
    UseRecord,
    Variable,
)
from pai_runtime.task.processes import Processes
from pai_runtime.task.services import Services
from pai_runtime.task.shell import NoShell, ScratchFile, Shell, exported, hand_over_script
from pai_runtime.task.state import State
from pai_runtime.task.stop import Stop, StopReason
from pai_runtime.task.variables import IMAGE, RUNTIME, Setting, Variables, parse_settings, those_that_fit


@dataclass(frozen=True)
class Options:
    """How this run of the task goes; times in seconds.

    `grace` is the time between SIGTERM and SIGKILL, `exit_budget` what the exit callbacks may take once the
    task has been told to stop, `prefix` stands before each line that is passed on. With a `parent`, the
    task ends when that process does. `termination_log` is where the platform looks for why it ended.
    """

    timeout: float | None = None
    grace: float = 10
    exit_budget: float = 30
    prefix: str = ""
    parent: int | None = None
    rotation: Rotation = field(default_factory=Rotation)
    termination_log: Path | None = None


def supervise(folder: Path, options: Options) -> int:
    """Run the task whose ``plan.json`` is in `folder`, in its ``work`` folder; its exit code.

    ``secrets.json``, where there is one, maps the path of each secret to its value; it is removed once read.
    """
    hand_over_script(b"")  # takes its place among the open files before anything else does
    stop = Stop(options.timeout, options.exit_budget)
    if options.parent is not None:
        end_with_parent(options.parent)
    try:
        text = (folder / "plan.json").read_bytes()
        plan = Plan.from_json(json.loads(text))
        secrets = _take_secrets(folder / "secrets.json")
        os.chdir(folder / "work")
    except (OSError, ValueError, PlanError) as error:
        return cannot_run(folder, f"the plan in {folder} cannot be run: {error}", options.termination_log)
    masks = Masks(secrets.values())
    try:
        parts = _parts(folder, options, stop, masks)
    except (OSError, CannotStart) as error:
        return cannot_run(folder, f"the task cannot be set up: {error}", options.termination_log)
    logs = parts.logs
    reserve(folder / "exit.yaml")

    def record() -> None:
        text = exit_record(result, failures, logs.tails(), masks.mask)
        _write_record(folder, text, options.termination_log)

    try:
        if rb"\u0000" in text:  # as a placeholder begins; a large plan without one is not walked through
            _check_secrets(plan, secrets)
        runner = _Runner(folder, plan, secrets, parts)
        result, failures = run_task(plan, runner, logs.runtime.say)
        if stop.reason() is None and parts.services.may_linger():
            record()  # whatever becomes of the services, this is how the task went
            parts.services.linger(parts.keeper)
    except (NoShell, PlanError) as error:
        logs.runtime.say(f"[ERROR] {error}")
        return cannot_run(folder, masks.mask(str(error)), options.termination_log)
    except Exception as error:  # noqa: BLE001 - a fault of ours must leave a record too
        logs.runtime.say(f"[ERROR] {traceback.format_exc()}")
        message = masks.mask(f"a fault in the runtime itself: {error!r}")
        return cannot_run(folder, message, options.termination_log)
    finally:
        parts.services.end()
        parts.processes.end()
        shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    record()
    parts.state.set("ended")
    return result.code


@dataclass(frozen=True)
class _Parts:
    """What a running task consists of."""

    loop: Loop
    stop: Stop
    logs: Logs
    processes: Processes
    services: Services
    state: State
    keeper: Keeper


def _parts(folder: Path, options: Options, stop: Stop, masks: Masks) -> _Parts:
    logs = Logs(folder / "logs", masks, options.prefix, options.rotation)
    loop = Loop()
    processes = Processes(loop, options.grace, stop, logs.runtime, masks)
    state = State(folder)
    services = Services(loop, logs, stop, state, options.grace)
    keeper = Keeper(folder, loop, stop, state, logs.runtime.say)
    return _Parts(loop, stop, logs, processes, services, state, keeper)


class _Runner:
    """The `Runner` of a real task. Its environment goes from step to step."""

    def __init__(self, folder: Path, plan: Plan, secrets: Mapping[str, str], parts: _Parts) -> None:
        self._folder = folder
        self._plan = plan
        self._secrets = secrets
        self._stop = parts.stop
        self._logs = parts.logs
        self._processes = parts.processes
        self._services = parts.services
        self._state = parts.state
        self._keeper = parts.keeper
        self._oom_kills = OomKills()
        self._analysis = ScratchFile()
        self._kept = ScratchFile()
        self._settings = ScratchFile()
        fit, left_out = those_that_fit(plan.environment)
        contributed = [
            replace(each, value=placeholders.fill(each.value, secrets)) if "\0" in each.value else each
            for each in fit
        ]
        self._variables = Variables(os.environ, contributed)
        self._variables.update({"PAI_WORK_DIR": str(Path.cwd())}, RUNTIME)
        if left_out:
            self._tell_peers_in_files(left_out)
        self._shell = Shell(self._variables.environment)
        self._write_variables()

    def step(self, step: Step, use: UseRecord, result: Result | None) -> Ended:
        """Run a script, or the plugin's hook in an interpreter of its own."""
        if self._stop.at_once:
            return Ended(128 + signal.SIGKILL, signal.SIGKILL)
        self._state.set(step.phase, use.name)
        own = {
            "PAI_TASK_PHASE": step.phase,
            "PAI_ENV": self._settings.path,
            "PAI_MASK": self._processes.mask_path,
        }
        if result is not None:
            own |= {"PAI_TASK_OUTCOME": result.outcome, "PAI_TASK_EXIT_CODE": str(result.code)}
        if step.hook is not None:
            argv, data = self._hook(step)
        else:
            argv = self._shell.step(use.name, self._kept.fd, stop_at_error=step.failure_policy == "fail")
            data = self._bytes(step.script or "")
        self._kept.write(b"")
        self._settings.write(b"")
        environment = {**self._variables.environment, **own}
        stop_at = self._stop.work_until if result is None else self._stop.exits_until
        try:
            ended = self._processes.run_step(argv, environment, data, (self._kept.fd,), stop_at)
        except CannotStart as error:
            self._logs.runtime.say(f"[ERROR] the step cannot be started: {error}")
            return CANNOT_START
        self._take_over(step, use)
        return ended

    def _hook(self, step: Step, failure: Mapping[str, Any] | None = None) -> tuple[list[str], bytes]:
        """The argv that calls a plugin's hook, and what it reads."""
        argv = python_argv("pai_runtime.host.run_hook", str(step.hook), str(self._folder), str(step.use))
        return argv, json.dumps({"secrets": self._secrets, "failure": failure}).encode()

    def start_service(self, service: Service) -> bool:
        """Start a background process; whether the task may go on."""
        script = self._bytes(service.script)
        probe = self._bytes(service.probe) if service.probe is not None else None
        environment = {**self._lasting_environment(), "PAI_RUNTIME_PYTHON": sys.executable}
        return self._services.start(service, script, probe, self._shell, environment)

    def command(self, command: Command) -> Ended | None:
        """Run the user's command; None if it cannot be started."""
        self._state.set("command")
        script = self._bytes(command.script)
        argv = self._shell.command("command")
        environment = self._lasting_environment()
        streams = self._logs.stdout, self._logs.stderr
        try:
            return self._processes.run_command(argv, environment, script, *streams, self._stop.work_until)
        except CannotStart as error:
            self._logs.runtime.say(f"[ERROR] the command cannot be started: {error}")
            return None

    def analyze(self, step: Step, use: UseRecord, result: Result) -> Analysis | None:
        """Ask a plugin why the task failed; None: it does not know, or cannot say."""
        self._state.set("analysis", use.name)
        failure = {
            "outcome": result.outcome,
            "code": result.code,
            "phase": result.phase,
            "user_code": result.user_code,
            "signal": result.signal,
            "plugin": result.failed and result.failed.plugin,
            "oom_kills": self._oom_kills.since(),
            "tails": self._logs.tails(),
        }
        argv, data = self._hook(step, failure)
        self._analysis.write(b"")
        environment = {**self._lasting_environment(), "PAI_ANALYSIS": self._analysis.path}
        until = time.monotonic() + _ANALYSIS_SECONDS
        try:
            ended = self._processes.run_step(
                argv, environment, data, (), lambda: min(until, self._stop.analysis_until())
            )
            if ended.code == 0:
                answer = json.loads(self._analysis.read(_ANALYSIS_BYTES) or b"null")
                return answer and Analysis.from_json(answer)
            why = f"it ended with exit code {ended.code}"
            if time.monotonic() >= until:
                why = f"it had no answer in {_ANALYSIS_SECONDS} seconds"
        except (CannotStart, ValueError, RecursionError) as error:
            why = str(error)
        self._logs.runtime.say(f"[WARNING] {use.label} did not find out why the task failed: {why}")
        return None

    def hold(self, result: Result) -> None:
        """Keep the task as it is for a while."""
        self._logs.runtime.say(f"[ERROR] {result.message}")
        self._keeper.keep("held", self._plan.hold, "for debugging")

    def told_to_stop(self) -> tuple[StopReason, int | None] | None:
        """Whether the task has been told to stop, and by which signal."""
        reason = self._stop.reason()
        return (reason, self._stop.signal) if reason else None

    def _bytes(self, script: str) -> bytes:
        return os.fsencode(placeholders.fill(script, self._secrets))

    def _lasting_environment(self) -> dict[str, str]:
        return {**self._variables.environment, "PAI_MASK": self._processes.mask_path}

    def _take_over(self, step: Step, use: UseRecord) -> None:
        """What the step has left to those after it."""
        left = exported(self._kept.read())
        if left is not None:
            left = {name: value for name, value in left.items() if name not in _OF_ONE_STEP}
        settings: list[Setting] = []
        for setting in parse_settings(os.fsdecode(self._settings.read())):
            if isinstance(setting, Setting):
                settings.append(setting)
            else:
                self._logs.runtime.say(f"[WARNING] what '{use.name}' wrote to $PAI_ENV: {setting}")
        self._variables.after_step(left, settings, f"{use.name}, {step.phase}")
        self._write_variables()

    def _tell_peers_in_files(self, left_out: list[Variable]) -> None:
        """Say in files what cannot be said in the environment."""
        known = [variable for variable in self._plan.environment if variable.source in (PLATFORM, PEERS)]
        tasks, script = self._folder / "tasks.json", self._folder / "tasks.sh"
        write_whole(tasks, json.dumps({variable.name: variable.value for variable in known}))
        write_whole(script, "".join(f"{each.name}={shlex.quote(each.value)}\n" for each in known))
        self._variables.update({"PAI_TASKS_FILE": str(tasks), "PAI_TASKS_SCRIPT": str(script)}, RUNTIME)
        self._logs.runtime.say(
            f"[WARNING] {len(left_out)} variables that tell where tasks are have no room in the environment; "
            f"all are in $PAI_TASKS_FILE (JSON) and $PAI_TASKS_SCRIPT (to source in a shell)"
        )

    def _write_variables(self) -> None:
        """Keep who set each variable, for ``pai-runtime explain``, without secrets.

        Of what comes from outside no value is kept: what is secret there, we do not know.
        """
        variables = sorted(self._variables.environment.items())
        sources = [self._variables.sources.get(name, IMAGE) for name, _ in variables]
        # All at once, since each text alone would take as long; none has a NUL in it.
        texts = [
            text
            for (name, value), source in zip(variables, sources, strict=True)
            for text in (name, source, value)
        ]
        masked = iter(self._logs.masks.mask("\0".join(texts)).split("\0"))
        document: dict[str, dict[str, str]] = {}
        for source in sources:
            name, shown, value = next(masked), next(masked), next(masked)
            document[name] = {"source": shown} if source == IMAGE else {"source": shown, "value": value}
        try:
            write_whole(self._folder / "variables.json", json.dumps(document), mode=0o600, sync=False)
        except OSError as error:
            self._logs.runtime.say(f"[WARNING] variables.json cannot be written: {error.strerror}")


_ANALYSIS_SECONDS = 60
"""How long finding out why the task failed may take."""

_ANALYSIS_BYTES = 64 * 1024
"""How long the answer may be."""

_OF_ONE_STEP = {"PAI_TASK_PHASE", "PAI_TASK_OUTCOME", "PAI_TASK_EXIT_CODE", "PAI_ENV", "PAI_MASK"}
"""Variables that a step is given and does not leave to the next."""


def _check_secrets(plan: Plan, secrets: Mapping[str, str]) -> None:
    missing = placeholders.paths(plan.to_json()) - secrets.keys()
    if missing:
        raise PlanError(f"no value is given for the secret {', '.join(map(repr, sorted(missing)))}")


def _take_secrets(path: Path) -> dict[str, str]:
    try:
        secrets: dict[str, str] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    path.unlink()
    return secrets


def cannot_run(folder: Path, message: str, termination_log: Path | None = None) -> int:
    """Say that a task cannot be run, and leave a record of it; its exit code."""
    sys.stderr.write(f"pai-runtime: {message}\n")
    result = Result("setup-failed", RUNTIME_ERROR, "init", message=message)
    _write_record(folder, exit_record(result), termination_log)
    State(folder).set("ended")
    return RUNTIME_ERROR


def _write_record(folder: Path, text: str, termination_log: Path | None) -> None:
    try:
        write_whole(folder / "exit.yaml", text)
    except OSError as error:
        sys.stderr.write(f"pai-runtime: {folder / 'exit.yaml'} cannot be written: {error.strerror}\n{text}")
    if termination_log is not None:
        try:
            # In place: on Kubernetes it is a file that is mounted, which nothing can be renamed to. Without
            # waiting for a reader, if it is a FIFO.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(termination_log, flags, 0o644), "wb") as file:
                file.write(termination_message(text).encode())
        except OSError as error:
            sys.stderr.write(f"pai-runtime: {termination_log} cannot be written: {error.strerror}\n")
