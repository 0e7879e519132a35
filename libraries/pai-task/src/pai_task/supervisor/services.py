"""Services: background processes that a plan names, such as a web server beside the user's command."""

from __future__ import annotations

import time
from functools import partial

from pai_task.record import record
from pai_task.signals import signal
from pai_task.supervisor.hold import hold
from pai_task.supervisor.keeper import Keeper, is_needed
from pai_task.supervisor.loop import CANNOT_START
from pai_task.supervisor.noted import Noted
from pai_task.supervisor.spawning import CannotStart, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pai_task.plan import Service, UseRecord
    from pai_task.supervisor.logs import RuntimeLog
    from pai_task.supervisor.loop import Child, ExitStatus, Loop
    from pai_task.supervisor.shell import Shell
    from pai_task.supervisor.task import Task

_FIRST_RESTART = 1.0
_LAST_RESTART = 60.0
_FIRST_PROBE = 0.02
_LAST_PROBE = 0.2


@record(frozen=True)
class Start:
    """The functions that start the processes of one service and report about them.

    `spawn` starts `script`, or `probe`, under a name; `tell` is called with an event and its fields. `said`
    returns the last line of the service's output.
    """

    script: bytes
    probe: bytes | None
    spawn: Callable[[bytes, str, Callable[[ExitStatus], None]], Child]
    say: Callable[[str], None]
    tell: Callable[..., None]
    said: Callable[[], str]


class RunningService:
    """A running service: restarted as its plan says, and probed until it is ready."""

    def __init__(self, service: Service, start: Start, loop: Loop, on_ready: Callable[[], None]) -> None:
        self._service = service
        self._begin = start
        self._loop = loop
        self._on_ready = on_ready
        self._stopping = False
        self._pause = _FIRST_RESTART
        self._probe_pause = _FIRST_PROBE
        self.child: Child | None = None
        self.is_ready: bool | None = True if start.probe is None else None
        self._start()
        if start.probe is not None:
            loop.at(time.monotonic() + service.ready_within, self._give_up)
            self._try_probe()
        elif service.address is not None:
            on_ready()

    def stop(self) -> None:
        """Send SIGTERM to the service, and do not restart it."""
        self._stopping = True
        if self.child:
            self.child.signal_group(signal.SIGTERM)
            self.child.signal_group(signal.SIGCONT)

    @property
    def has_ended(self) -> bool:
        """Whether the service's process is gone."""
        return self.child is None or self.child.ended is not None

    @property
    def lingers_for(self) -> float:
        """The number of seconds for which the service outlives the task; 0 if it does not."""
        return 0 if self._stopping or self.is_ready is False else self._service.linger

    def _start(self) -> None:
        if not self._stopping:
            self.child = self._begin.spawn(self._begin.script, self._service.name, self._ended)
            self._begin.tell("serviceStarted", service=self._service.name)

    def _start_again(self) -> None:
        try:
            self._start()
        except CannotStart as error:
            self._begin.say(f"[WARNING] cannot start {self._label}: {error}")
            self._ended(CANNOT_START)

    def _ended(self, ended: ExitStatus) -> None:
        name, code = self._service.name, ended.code
        self._begin.tell("serviceEnded", service=name, exitCode=code, signal=ended.signal)
        if self._stopping:
            return
        again = _is_restarted(self._service, ended)
        then = f"it is restarted in {self._pause:g} s" if again else "it is not restarted"
        self._begin.say(
            f"[{'WARNING' if ended.code else 'INFO'}] {self._label} ended with exit code {ended.code}; {then}"
        )
        if again:
            self._loop.at(time.monotonic() + self._pause, self._start_again)
            self._pause = min(self._pause * 2, _LAST_RESTART)
        if not self.is_ready or (ended.code and not again):
            why = f"exit code {code}" if code else "it ended before it was ready"
            said = self._begin.said()
            why += f"; it is {'' if again else 'not '}restarted"
            self._fail(f"{why}; it said: {said}" if said else why)
        if not again:
            self.is_ready = False

    def _try_probe(self) -> None:
        probe = self._begin.probe
        if probe is not None and self.is_ready is None and not self._stopping:
            try:
                self._begin.spawn(probe, f"{self._service.name} probe", self._probed)
            except CannotStart:
                self._probed(CANNOT_START)

    def _probed(self, ended: ExitStatus) -> None:
        if self._stopping or self.is_ready is not None:
            return
        if ended.code == 0:
            self.is_ready = True
            self._on_ready()
        else:
            self._loop.at(time.monotonic() + self._probe_pause, self._try_probe)
            self._probe_pause = min(self._probe_pause * 2, _LAST_PROBE)

    def _give_up(self) -> None:
        # A timer's work, because a probe may hang.
        if self.is_ready is None and not self._stopping:
            self.is_ready = False
            why = f"not ready after {self._service.ready_within:g} s"
            self._begin.say(f"[WARNING] {self._label} is {why}")
            self._fail(why)

    def _fail(self, why: str) -> None:
        self._begin.tell("serviceFailed", service=self._service.name, message=why)

    @property
    def _label(self) -> str:
        return f"service '{self._service.name}'"


def _is_restarted(service: Service, ended: ExitStatus) -> bool:
    return service.restart == "always" or (service.restart == "on-failure" and ended.code != 0)


class Services:
    """All services of a task."""

    def __init__(self, task: Task, shell: Shell) -> None:
        self._task = task
        self._shell = shell
        self._running: list[RunningService] = []
        self._waiting: list[tuple[Service, UseRecord, Mapping[str, str]]] = []
        self._command_since: float | None = None
        self._keepers: dict[str, Keeper] = {}

    def start(self, service: Service, use: UseRecord, environment: Mapping[str, str]) -> bool:
        """Start a service, or let it wait for silence; if it is required, wait until it is ready.

        Returns whether the task may continue.
        """
        if service.when_silent:
            self._waiting.append((service, use, environment))
            return True
        return self._start(service, use, environment)

    def command_starts(self) -> Keeper | None:
        """Listen from now on for the silence of the command, and start what waits for it.

        Returns what the command is to be started by, if a service is to be an ancestor of it: the first one.
        """
        self._command_since = time.monotonic()
        keeper = None
        for service, use, environment in self._waiting:
            if service.ancestor and not keeper and is_needed():
                try:
                    keeper = self._keepers[service.name] = self._keeper(service, use, environment)
                except CannotStart as error:
                    self._task.say(f"[WARNING] service '{service.name}': {error}")
            self._start_if_silent(service, use, environment)
        return keeper

    def _keeper(self, service: Service, use: UseRecord, environment: Mapping[str, str]) -> Keeper:
        task = self._task

        def ended(status: ExitStatus) -> None:
            code, again = status.code, _is_restarted(service, status)
            task.journal.add("serviceEnded", service=service.name, exitCode=code, signal=status.signal)
            then = "it is restarted beside the command" if again else "it is not restarted"
            task.say(f"[WARNING] service '{service.name}' ended with exit code {code}; {then}")
            if again:
                self._start(service, use, environment)

        argv = [environment["PAI_RUNTIME_PYTHON"], *service.ancestor]
        return Keeper(Program(argv, environment, None), self._output(service, use)[1], ended)

    def _output(self, service: Service, use: UseRecord) -> tuple[RuntimeLog, int]:
        """Return the stream of a service's output, and the pipe into it. Raises `CannotStart`."""
        stream = self._task.logs.runtime_stream(f"service '{service.name}' of {use.short_label}")
        return stream, self._task.loop.pipe(Noted(stream, self._task.note, self._task.seen_at))

    def begin_ancestors(self) -> None:
        """Start all services that are ancestors of the command and have not been started yet."""
        for name, keeper in self._keepers.items():
            if keeper.is_waiting:
                keeper.begin()
                self._task.journal.add("serviceStarted", service=name)

    def command_ended(self) -> None:
        """Start nothing more that waits for silence."""
        self._command_since = None

    def _start_if_silent(self, service: Service, use: UseRecord, environment: Mapping[str, str]) -> None:
        if self._command_since is None:
            return
        logs = self._task.logs
        due = max(self._command_since, logs.stdout.fed, logs.stderr.fed) + service.when_silent
        if time.monotonic() >= due:
            self.begin_ancestors()
            keeper = self._keepers.get(service.name)
            if keeper is None or not keeper.has_begun:
                self._start(service, use, environment)
        else:
            self._task.loop.at(due, partial(self._start_if_silent, service, use, environment))

    def _start(self, service: Service, use: UseRecord, environment: Mapping[str, str]) -> bool:
        task = self._task

        def spawn(script: bytes, name: str, on_end: Callable[[ExitStatus], None]) -> Child:
            argv = self._shell.command(name, stop_at_error=False)
            return task.loop.spawn(Program(argv, environment, script), output, output, on_end)

        def said() -> str:
            task.loop.drain(0)  # a process that has ended may have written more than was read
            return stream.last_line()

        probe = task.script(service.probe) if service.probe is not None else None
        try:
            stream, output = self._output(service, use)
            start = Start(task.script(service.script), probe, spawn, task.say, task.journal.add, said)
            on_ready = partial(self._tell_ready, service, environment)
            running = RunningService(service, start, task.loop, on_ready)
        except CannotStart as error:
            task.say(f"[ERROR] cannot start service '{service.name}': {error}")
            why = task.logs.masks.mask(f"cannot start: {error}")
            task.journal.add("serviceFailed", service=service.name, message=why)
            return not service.required
        self._running.append(running)
        while service.required and running.is_ready is None and time.monotonic() < task.stop.work_until():
            task.loop.turn(task.stop.work_until())
        return bool(running.is_ready) or not service.required

    def may_linger(self) -> bool:
        """Return whether any service is to outlive the task."""
        return any(running.lingers_for for running in self._running)

    def linger(self) -> None:
        """Keep the task until each service that outlives it has had its time."""
        now, longest = time.monotonic(), max(running.lingers_for for running in self._running)
        for running in self._running:
            self._task.loop.at(now + running.lingers_for, running.stop)
        hold(self._task, "lingering", longest, self.may_linger)

    def end(self) -> None:
        """Ask all services to end, and wait for them for at most the grace period."""
        until = time.monotonic() + self._task.options.grace
        for service in self._running:
            service.stop()
        if not all(service.has_ended for service in self._running):
            self._task.journal.add("ending")
        while not all(service.has_ended for service in self._running) and time.monotonic() < until:
            if self._task.stop.at_once:
                return
            self._task.loop.turn(until)

    def _tell_ready(self, service: Service, environment: Mapping[str, str]) -> None:
        address = service.address and self._filled_in(service.address, environment)
        self._task.say(f"[INFO] service '{service.name}' is ready" + (f": {address}" if address else ""))
        masked = address and self._task.logs.masks.mask(address)
        self._task.journal.add("serviceReady", service=service.name, address=masked)

    def _filled_in(self, address: str, environment: Mapping[str, str]) -> str:
        from string import Template  # noqa: PLC0415 - few services have an address

        host = self._task.options.served_at
        reached = {"PAI_CURRENT_CONTAINER_IP": host} if host else {}
        return Template(address).safe_substitute({**environment, **reached})
