"""One task from its plan to its exit record: the lifecycle with real processes, logs and secrets."""

import contextlib
import json
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pai_runtime.supervisor.hold import Hold
from pai_runtime.supervisor.lifecycle import run_task
from pai_runtime.supervisor.logs import Logs, Rotation
from pai_runtime.supervisor.loop import CANNOT_START, CannotStart, ExitStatus, Loop
from pai_runtime.supervisor.oom import OomKills
from pai_runtime.supervisor.process_tree import keep_to_ourselves
from pai_runtime.supervisor.processes import Processes
from pai_runtime.supervisor.services import Services
from pai_runtime.supervisor.shell import NoShell, Shell, exported
from pai_runtime.supervisor.stop import Stop, StopReason
from pai_runtime.task import placeholders
from pai_runtime.task.analysis import Analysis
from pai_runtime.task.exit_record import MOST_BYTES, exit_record, termination_message
from pai_runtime.task.folder import Folder
from pai_runtime.task.interpreter import python_argv
from pai_runtime.task.layout import MASK, PLAN, PRIVATE, RECORD, SHARED, VARIABLES, WORK
from pai_runtime.task.masking import Masks
from pai_runtime.task.memfd import ScratchFile
from pai_runtime.task.outcome import RUNTIME_ERROR, Result
from pai_runtime.task.plan import (
    PEERS,
    PLATFORM,
    Command,
    Plan,
    PlanError,
    Service,
    Step,
    UseRecord,
    Variable,
)
from pai_runtime.task.state import State
from pai_runtime.task.variables import IMAGE, RUNTIME, Setting, Variables, parse_settings, those_that_fit


@dataclass(frozen=True)
class Options:
    """How this run of the task goes; times in seconds.

    `grace` is the time between SIGTERM and SIGKILL, `exit_budget` what the exit callbacks may take once the
    task has been told to stop, `prefix` stands before each line that is passed on. `termination_log` is where
    the platform looks for why it ended. `secrets` is the descriptor of a JSON object, with the value of each
    secret by its path. `pid` is the supervisor's as others see it, and `python` an interpreter for services.
    """

    timeout: float | None = None
    grace: float = 10
    exit_budget: float = 30
    prefix: str = ""
    rotation: Rotation = field(default_factory=Rotation)
    termination_log: Path | None = None
    secrets: int | None = None
    pid: int = field(default_factory=os.getpid)
    python: str = sys.executable


def supervise(folder: Folder, options: Options) -> int:
    """Run the task whose ``plan.json`` is in `folder`, in its ``work`` folder; its exit code.

    All that the runtime keeps of the task goes through `folder`, which the task may not be able to see; what
    the task has in its place is at the path of `folder`.
    """
    stop = Stop(options.timeout, options.exit_budget)
    keep_to_ourselves()
    try:
        text = folder.read(PLAN, _PLAN_BYTES)
        document = json.loads(text)
        if isinstance(document, dict) and "shared" not in document:
            document["shared"] = json.loads(folder.read(SHARED, _PLAN_BYTES))
        plan = Plan.from_json(document)
        secrets = _read_secrets(options.secrets)
        os.chdir(folder.path / WORK)
        inside = Folder.at(folder.path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(PRIVATE, 0o700, dir_fd=inside.fd)
    except (OSError, ValueError, PlanError) as error:
        return cannot_run(folder, f"the plan in {folder.path} cannot be run: {error}", options)
    masks = Masks(secrets.values())
    try:
        parts = _parts(folder, inside, options, stop, masks)
    except (OSError, CannotStart) as error:
        return cannot_run(folder, f"the task cannot be set up: {error}", options)
    logs = parts.logs
    folder.reserve(RECORD, MOST_BYTES)

    def record() -> None:
        text = exit_record(result, failures, logs.tails(), masks.mask)
        _write_record(folder, text, options.termination_log)

    try:
        if rb"\u0000" in text:  # as a placeholder begins; a large plan without one is not walked through
            _check_secrets(plan, secrets)
        runner = _Runner(plan, secrets, parts, options)
        result, failures = run_task(plan, runner, logs.runtime.say)
        if stop.reason() is None and parts.services.may_linger():
            record()  # whatever becomes of the services, this is how the task went
            parts.services.linger(parts.hold)
    except (NoShell, PlanError) as error:
        logs.runtime.say(f"[ERROR] {error}")
        return cannot_run(folder, masks.mask(str(error)), options)
    except Exception as error:  # noqa: BLE001 - a fault of ours must leave a record too
        logs.runtime.say(f"[ERROR] {traceback.format_exc()}")
        message = masks.mask(f"a fault in the runtime itself: {error!r}")
        return cannot_run(folder, message, options)
    finally:
        parts.services.end()
        parts.processes.end()
        with contextlib.suppress(OSError):
            inside.remove(PRIVATE)
    record()
    parts.state.set("ended")
    return result.code


@dataclass(frozen=True)
class _Parts:
    """What a running task consists of."""

    folder: Folder
    inside: Folder
    stop: Stop
    logs: Logs
    processes: Processes
    services: Services
    state: State
    hold: Hold


def _parts(folder: Folder, inside: Folder, options: Options, stop: Stop, masks: Masks) -> _Parts:
    logs = Logs(folder, masks, options.prefix, options.rotation)
    loop = Loop()
    mask_pipe = inside.fifo(MASK)
    processes = Processes(loop, options.grace, stop, logs.runtime, mask_pipe, masks)
    state = State(folder, options.pid)
    services = Services(loop, logs, stop, state, options.grace)
    hold = Hold((folder, inside), options.pid, loop, stop, state, logs.runtime.say)
    return _Parts(folder, inside, stop, logs, processes, services, state, hold)


class _Runner:
    """The `Runner` of a real task. Its environment goes from step to step."""

    def __init__(self, plan: Plan, secrets: Mapping[str, str], parts: _Parts, options: Options) -> None:
        self._folder = parts.folder
        self._inside = parts.inside
        self._options = options
        self._mask = {"PAI_MASK": str(parts.inside.path / MASK)}
        self._plan = plan
        self._secrets = secrets
        self._stop = parts.stop
        self._logs = parts.logs
        self._processes = parts.processes
        self._services = parts.services
        self._state = parts.state
        self._hold = parts.hold
        self._oom_kills = OomKills()
        self._analysis = ScratchFile()
        self._kept = ScratchFile()
        self._settings = ScratchFile()
        fit, left_out = those_that_fit(plan.variables())
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

    def step(self, step: Step, use: UseRecord, result: Result | None) -> ExitStatus:
        """Run a script, or the plugin's hook in an interpreter of its own."""
        if self._stop.at_once:
            return ExitStatus(128 + signal.SIGKILL, signal.SIGKILL)
        self._state.set(step.phase, use.name)
        own: dict[str, str] = {**self._mask, "PAI_TASK_PHASE": step.phase}
        files = {"PAI_ENV": self._settings.fd}
        if result is not None:
            own |= {"PAI_TASK_OUTCOME": result.outcome, "PAI_TASK_EXIT_CODE": str(result.code)}
        if step.hook is not None:
            own |= _paths(files)
            argv, data = self._hook(step, {**self._variables.environment, **own})
        else:
            stop_at_error = step.failure_policy == "fail"
            argv = self._shell.step(use.name, files, self._kept.fd, stop_at_error=stop_at_error)
            data = self._bytes(step.script or "")
        self._kept.write(b"")
        self._settings.write(b"")
        environment = _without_loaders({**self._variables.environment, **own}, step)
        stop_at = self._stop.work_until if result is None else self._stop.exits_until
        try:
            fds = (self._kept.fd, self._settings.fd)
            ended = self._processes.run_step(argv, environment, data, fds, stop_at)
        except CannotStart as error:
            self._logs.runtime.say(f"[ERROR] the step cannot be started: {error}")
            return CANNOT_START
        self._take_over(step, use)
        return ended

    def _hook(
        self, step: Step, environment: Mapping[str, str], failure: Mapping[str, Any] | None = None
    ) -> tuple[list[str], bytes]:
        """The argv that calls a plugin's hook, and what it reads."""
        plan, use = self._plan, self._plan.uses[step.use]
        named = placeholders.paths(use.parameters) | set(map(placeholders.platform_path, use.secrets))
        given = {
            "secrets": {path: value for path, value in self._secrets.items() if path in named},
            "environment": environment,
            "failure": failure,
            "use": use.to_json(),
            "task": {
                "job": plan.job,
                "role": plan.role,
                "index": plan.index,
                "instances": dict(plan.instances),
                "ports": dict(plan.ports),
                "folder": plan.folder,
                "gang": plan.gang,
            },
            "rules": [{"plugin": plan.uses[each.use].plugin, "rule": each.rule} for each in plan.exit_rules],
        }
        return python_argv("pai_runtime.host.hook_runner", str(step.hook)), json.dumps(given).encode()

    def start_service(self, service: Service) -> bool:
        """Start a background process; whether the task may go on."""
        script = self._bytes(service.script)
        probe = self._bytes(service.probe) if service.probe is not None else None
        python = {"PAI_RUNTIME_PYTHON": self._options.python}
        environment = {**self._variables.environment, **self._mask, **python}
        return self._services.start(service, script, probe, self._shell, environment)

    def command(self, command: Command) -> ExitStatus | None:
        """Run the user's command; None if it cannot be started."""
        self._state.set("command")
        script = self._bytes(command.script)
        argv = self._shell.command("command", stop_at_error=True)
        environment = {**self._variables.environment, **self._mask}
        streams = self._logs.stdout, self._logs.stderr
        try:
            return self._processes.run_command(argv, environment, script, *streams, self._stop.work_until)
        except CannotStart as error:
            self._logs.runtime.say(f"[ERROR] the command cannot be started: {error}")
            return None

    def decided(self, result: Result) -> None:
        """Leave a record in case we do not come to the end, without what is kept for the last one."""
        text = exit_record(result, (), self._logs.tails(), self._logs.masks.mask)
        with contextlib.suppress(OSError):
            self._folder.write(f".{RECORD}", text, sync=False)
            self._folder.move(f".{RECORD}", self._folder, RECORD)

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
        self._analysis.write(b"")
        environment = {
            **self._variables.environment,
            **self._mask,
            **_paths({"PAI_ANALYSIS": self._analysis.fd}),
        }
        argv, data = self._hook(step, environment, failure)
        until = time.monotonic() + _ANALYSIS_SECONDS
        try:
            ended = self._processes.run_step(
                argv,
                _without_loaders(environment, step),
                data,
                (self._analysis.fd,),
                lambda: min(until, self._stop.analysis_until()),
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
        self._hold.keep("held", self._plan.hold, "for debugging")

    def told_to_stop(self) -> tuple[StopReason, int | None] | None:
        """Whether the task has been told to stop, and by which signal."""
        reason = self._stop.reason()
        return (reason, self._stop.signal) if reason else None

    def _bytes(self, script: str) -> bytes:
        return os.fsencode(placeholders.fill(script, self._secrets))

    def _take_over(self, step: Step, use: UseRecord) -> None:
        """What the step has left to those after it."""
        left = exported(self._left(self._kept, use, "the environment"))
        if left is not None:
            left = {name: value for name, value in left.items() if name not in _OF_ONE_STEP}
        settings: list[Setting] = []
        for setting in parse_settings(os.fsdecode(self._left(self._settings, use, "$PAI_ENV"))):
            if isinstance(setting, Setting):
                settings.append(setting)
            else:
                self._logs.runtime.say(f"[WARNING] what '{use.name}' wrote to $PAI_ENV: {setting}")
        self._variables.after_step(left, settings, f"{use.name}, {step.phase}")
        self._write_variables()

    def _left(self, file: ScratchFile, use: UseRecord, what: str) -> bytes:
        try:
            return file.read(_ENVIRONMENT_BYTES)
        except ValueError as error:
            self._logs.runtime.say(f"[ERROR] what '{use.name}' left in {what} is not taken over: {error}")
            file.write(b"")
            return b""

    def _tell_peers_in_files(self, left_out: list[Variable]) -> None:
        """Say in files what cannot be said in the environment."""
        known = [variable for variable in self._plan.variables() if variable.source in (PLATFORM, PEERS)]
        tasks, script = "tasks.json", "tasks.sh"
        self._inside.write(tasks, json.dumps({variable.name: variable.value for variable in known}))
        self._inside.write(script, "".join(f"{each.name}={shlex.quote(each.value)}\n" for each in known))
        paths = {"PAI_TASKS_FILE": tasks, "PAI_TASKS_SCRIPT": script}
        self._variables.update({name: str(self._inside.path / file) for name, file in paths.items()}, RUNTIME)
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
            self._folder.write(VARIABLES, json.dumps(document), mode=0o600, sync=False)
        except OSError as error:
            self._logs.runtime.say(f"[WARNING] variables.json cannot be written: {error.strerror}")


_ANALYSIS_SECONDS = 60
"""How long finding out why the task failed may take."""

_ANALYSIS_BYTES = 64 * 1024
"""How long the answer may be."""

_LOADERS = ("LD_", "GLIBC_TUNABLES", "GCONV_PATH")

_PLAN_BYTES = 256 * 1024 * 1024
_SECRETS_BYTES = 64 * 1024 * 1024
_ENVIRONMENT_BYTES = 8 * 1024 * 1024
"""More than the kernel takes for the next process."""

_OF_ONE_STEP = {"PAI_TASK_PHASE", "PAI_TASK_OUTCOME", "PAI_TASK_EXIT_CODE", "PAI_ENV", "PAI_MASK"}
"""Variables that a step is given and does not leave to the next."""


def _check_secrets(plan: Plan, secrets: Mapping[str, str]) -> None:
    missing = placeholders.paths(plan.to_json(whole=False)) - secrets.keys()
    if missing:
        raise PlanError(f"no value is given for the secret {', '.join(map(repr, sorted(missing)))}")


def _read_secrets(fd: int | None) -> dict[str, str]:
    if fd is None:
        return {}
    with os.fdopen(fd, "rb") as file:
        secrets: dict[str, str] = json.loads(file.read(_SECRETS_BYTES))
    return secrets


def _without_loaders(environment: dict[str, str], step: Step) -> dict[str, str]:
    """For a hook, without what puts other code into its process; it sets that again for what it starts."""
    if step.hook is None:
        return environment
    return {name: value for name, value in environment.items() if not name.startswith(_LOADERS)}


def _paths(files: Mapping[str, int]) -> dict[str, str]:
    """As a process that is started with these descriptors finds what is behind them."""
    return {name: f"/proc/self/fd/{fd}" for name, fd in files.items()}


def cannot_run(folder: Folder, message: str, options: Options) -> int:
    """Say that a task cannot be run, and leave a record of it; its exit code."""
    sys.stderr.write(f"pai-runtime: {message}\n")
    result = Result("setup-failed", RUNTIME_ERROR, "init", message=message)
    _write_record(folder, exit_record(result), options.termination_log)
    State(folder, options.pid).set("ended")
    return RUNTIME_ERROR


def _write_record(folder: Folder, text: str, termination_log: Path | None) -> None:
    try:
        folder.write(RECORD, text)
    except OSError as error:
        sys.stderr.write(f"pai-runtime: {error.filename} cannot be written: {error.strerror}\n{text}")
    if termination_log is not None:
        try:
            # In place: on Kubernetes it is a file that is mounted, which nothing can be renamed to.
            with Folder.at(termination_log.parent) as above:
                fd = above.append(termination_log.name)
            with os.fdopen(fd, "wb") as file:
                file.truncate(0)
                file.write(termination_message(text).encode())
        except OSError as error:
            sys.stderr.write(f"pai-runtime: {termination_log} cannot be written: {error.strerror}\n")
