"""Services: background processes that a plan names, such as a web server beside the user's command."""

import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from string import Template

from pai_runtime.supervisor.hold import Hold
from pai_runtime.supervisor.logs import Logs
from pai_runtime.supervisor.loop import CANNOT_START, CannotStart, Child, ExitStatus, Loop
from pai_runtime.supervisor.shell import Shell
from pai_runtime.supervisor.stop import Stop
from pai_runtime.task.plan import Service
from pai_runtime.task.state import State

_FIRST_RESTART = 1.0
_LAST_RESTART = 60.0
_FIRST_PROBE = 0.02
_LAST_PROBE = 0.2


class RunningService:
    """One service while it runs: started again as its plan says, and probed until it is ready."""

    def __init__(
        self,
        service: Service,
        script: bytes,
        probe: bytes | None,
        spawn: Callable[[bytes, str, Callable[[ExitStatus], None]], Child],
        loop: Loop,
        say: Callable[[str], None],
        on_ready: Callable[[], None],
    ) -> None:
        self._service = service
        self._script = script
        self._probe = probe
        self._spawn = spawn
        self._loop = loop
        self._say = say
        self._on_ready = on_ready
        self._stopping = False
        self._pause = _FIRST_RESTART
        self._probe_pause = _FIRST_PROBE
        self.child: Child | None = None
        self.is_ready: bool | None = True if probe is None else None
        self._start()
        if probe is not None:
            loop.at(time.monotonic() + service.ready_within, self._give_up)
            self._try_probe()
        elif service.address is not None:
            on_ready()

    def stop(self) -> None:
        """Ask it to end."""
        self._stopping = True
        if self.child:
            self.child.signal_group(signal.SIGTERM)
            self.child.signal_group(signal.SIGCONT)

    @property
    def has_ended(self) -> bool:
        """Whether its process is gone."""
        return self.child is None or self.child.ended is not None

    @property
    def lingers_for(self) -> float:
        """For how many seconds it is to outlive the task; 0 if nothing is left of it that could."""
        return 0 if self._stopping or self.is_ready is False else self._service.linger

    def _start(self) -> None:
        if not self._stopping:
            self.child = self._spawn(self._script, self._service.name, self._ended)

    def _start_again(self) -> None:
        try:
            self._start()
        except CannotStart as error:
            self._say(f"[WARNING] {self._label} cannot be started: {error}")
            self._ended(CANNOT_START)

    def _ended(self, ended: ExitStatus) -> None:
        if self._stopping:
            return
        again = self._service.restart == "always" or (
            self._service.restart == "on-failure" and ended.code != 0
        )
        then = f"it starts again in {self._pause:g} s" if again else "it is not started again"
        self._say(
            f"[{'WARNING' if ended.code else 'INFO'}] {self._label} ended with exit code {ended.code}; {then}"
        )
        if again:
            self._loop.at(time.monotonic() + self._pause, self._start_again)
            self._pause = min(self._pause * 2, _LAST_RESTART)
        else:
            self.is_ready = False

    def _try_probe(self) -> None:
        if self._probe is not None and self.is_ready is None and not self._stopping:
            try:
                self._spawn(self._probe, f"{self._service.name} probe", self._probed)
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
            self._say(f"[WARNING] {self._label} is not ready after {self._service.ready_within:g} s")

    @property
    def _label(self) -> str:
        return f"service '{self._service.name}'"


class Services:
    """All services of a task."""

    def __init__(self, loop: Loop, logs: Logs, stop: Stop, state: State, grace: float) -> None:
        self._loop = loop
        self._logs = logs
        self._stop = stop
        self._state = state
        self._grace = grace
        self._running: list[RunningService] = []

    def start(
        self,
        service: Service,
        script: bytes,
        probe: bytes | None,
        shell: Shell,
        environment: Mapping[str, str],
    ) -> bool:
        """Start a service; for a required one, wait until it is ready. Whether the task may go on."""

        def spawn(text: bytes, name: str, on_end: Callable[[ExitStatus], None]) -> Child:
            argv = shell.command(name, stop_at_error=False)
            return self._loop.spawn(argv, environment, text, output, output, on_end=on_end)

        say, on_ready = self._logs.runtime.say, partial(self._tell_ready, service, environment)
        try:
            output = self._loop.pipe(self._logs.runtime_stream())
            running = RunningService(service, script, probe, spawn, self._loop, say, on_ready)
        except CannotStart as error:
            say(f"[ERROR] service '{service.name}' cannot be started: {error}")
            return not service.required
        self._running.append(running)
        while service.required and running.is_ready is None and time.monotonic() < self._stop.work_until():
            self._loop.turn(self._stop.work_until())
        return bool(running.is_ready) or not service.required

    def may_linger(self) -> bool:
        """Whether any is to outlive the task."""
        return any(running.lingers_for for running in self._running)

    def linger(self, hold: Hold) -> None:
        """Let those that outlive the task do so, each for its time."""
        now, longest = time.monotonic(), max(running.lingers_for for running in self._running)
        for running in self._running:
            self._loop.at(now + running.lingers_for, running.stop)
        hold.keep("lingering", longest, "for its services", self.may_linger)

    def _tell_ready(self, service: Service, environment: Mapping[str, str]) -> None:
        if service.address is None:
            self._logs.runtime.say(f"[INFO] service '{service.name}' is ready")
            return
        address = Template(service.address).safe_substitute(environment)
        self._logs.runtime.say(f"[INFO] service '{service.name}' is ready: {address}")
        self._state.add_address(service.name, self._logs.masks.mask(address))

    def end(self) -> None:
        """Ask all services to end, and wait for them for the grace time."""
        until = time.monotonic() + self._grace
        for service in self._running:
            service.stop()
        while not all(service.has_ended for service in self._running) and time.monotonic() < until:
            if self._stop.at_once:
                return
            self._loop.turn(until)
