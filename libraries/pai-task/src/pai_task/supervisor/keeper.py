"""A process between the supervisor and the command, which can become a program that traces the command.

Only an ancestor of a process may read its stack where ``kernel.yama.ptrace_scope`` is 1, as it is on Ubuntu,
and what reads stacks may crash: so it can be neither the supervisor, nor a service beside the command. The
keeper starts the command and waits; when it is told to, it executes the program.

The command does not depend on it. When the keeper ends, for whatever reason, the supervisor adopts the
command. When the command has ended, which its pidfd tells, the supervisor ends the keeper, and so gets the
command's exit status.
"""

from __future__ import annotations

import os

from pai_task.exit_codes import NOT_EXECUTED
from pai_task.memfd import hand_over_script
from pai_task.signals import signal
from pai_task.supervisor.process_tree import read_proc
from pai_task.supervisor.spawning import CannotStart, Program, become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from pai_task.supervisor.loop import ExitStatus

YAMA = "/proc/sys/kernel/yama/ptrace_scope"
"""The file that says who may trace a process; 1 means its ancestors."""
_MOST_ANSWER = 64


class Keeper:
    """A keeper that becomes `program`, with the descriptor `output` as its output, when it is told to.

    `on_end` is called if it ends after that, before the command does.
    """

    def __init__(self, program: Program, output: int, on_end: Callable[[ExitStatus], None]) -> None:
        self.program = program
        self.output = output
        self.pid = 0
        self._on_end = on_end
        self._tell: int | None = None
        self.has_begun = False
        """Whether it was told to become its program."""

    def spawn(self, command: Program, stdout: int, stderr: int, umask: int | None) -> int:
        """Start the keeper and below it the command, and return the command's process id.

        Raises `CannotStart`.
        """
        pipes: list[int] = []
        try:
            hand_over_script(command.script or b"")
            pipes += os.pipe()
            pipes += os.pipe()
            self.pid = os.fork()
        except OSError as error:
            for fd in pipes:
                os.close(fd)
            raise CannotStart(f"{command.argv[0]}: {error.strerror}") from None
        told, tell, asks, ask = pipes
        self._tell = ask
        if self.pid == 0:
            os.close(ask)
            self._keep(command, (stdout, stderr), tell, asks, umask)
        os.close(tell)
        os.close(asks)
        answer = b""
        while piece := os.read(told, _MOST_ANSWER):  # until the kernel closes it, as the command begins
            answer += piece
        os.close(told)
        pid, _, failed = answer.partition(b"\n")
        if failed or not pid:
            self.forget()
            raise CannotStart(f"{command.argv[0]}: {os.strerror(int(failed)) if failed else 'no process'}")
        return int(pid)

    @property
    def is_waiting(self) -> bool:
        """Whether it can be told to become its program."""
        return self._tell is not None and not self.has_begun

    def begin(self) -> None:
        """Tell it to become its program."""
        self.has_begun = True
        if self._tell is not None:
            try:
                os.write(self._tell, b"b")
            except BrokenPipeError:
                pass  # it has ended, which is seen in the next turn

    def end(self) -> None:
        """End it, as the command has ended."""
        if self._tell is not None:
            os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so it is ours
            self.forget()

    def ended(self, status: ExitStatus) -> None:
        """Handle its end; that of the command may be still to come."""
        was_expected = self._tell is None or not self.has_begun
        self.forget()
        if not was_expected:
            self._on_end(status)

    def forget(self) -> None:
        """Close what it is told by, so that it ends, and the command with it, if it still waits."""
        if self._tell is not None:
            os.close(self._tell)
            self._tell = None

    def _keep(
        self, command: Program, output: tuple[int, int], tell: int, asks: int, umask: int | None
    ) -> NoReturn:
        """Start the command, wait, and become the program; never return into the code of the supervisor."""
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            pid = os.fork()
            if pid == 0:
                os.write(tell, b"%d\n" % os.getpid())
                become(command, output, tell, None, umask)
            for name in os.listdir("/proc/self/fd"):
                if int(name) not in (asks, self.output):
                    _close(int(name))
            if os.read(asks, 1):
                for standard in (0, 1, 2):
                    os.dup2(self.output if standard else os.open(os.devnull, os.O_RDONLY), standard)
                    os.set_inheritable(standard, True)  # noqa: FBT003 - what was opened as 0 is not duplicated
                os.execve(self.program.argv[0], self.program.argv, self.program.environment)  # noqa: S606
            os.killpg(pid, signal.SIGKILL)  # the supervisor is gone
        finally:
            os._exit(NOT_EXECUTED)


def is_needed() -> bool:
    """Return whether only ancestors may trace, and the kernel tells of the end of a process not our child."""
    if read_proc(YAMA).strip() != b"1":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass  # the one by which the names were read
