"""One task under the real supervisor, without a job file around it."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

import pai_document
import pai_runtime
import pai_task
from pai_task.analysis import Analysis
from pai_task.interpreter import python_argv
from pai_task.launch import DEFAULT, LaunchOptions
from pai_task.outcome import Result
from pai_task.plan import Command, Plan, Service, Step, UseRecord, Variable
from pai_task.supervisor.loop import ExitStatus
from pai_task.vocabulary import FailurePolicy, Phase, StopReason
from tests import isolated_task

_HOOKS = "pai_runtime.host.hook_runner"


def use(name: str) -> UseRecord:
    """A use of a plugin, as a plan records it."""
    return UseRecord(name, "org.example.test", "pai-test", "1.0", None, {}, "fail", "job.yaml:1:1")


def shell(phase: Phase, number: int, script: str, policy: FailurePolicy = "fail") -> Step:
    """A shell step of one of the uses."""
    return Step(phase, number, policy, script=script)


def plan(
    folder: Path | str,
    command: str = "true",
    steps: Sequence[Step] = (),
    environment: Mapping[str, str] | None = None,
    uses: int = 3,
) -> Plan:
    """A plan of a task in `folder` with uses named ``a``, ``b``, ``c``."""
    return Plan(
        job="job",
        role="worker",
        index=0,
        folder=str(folder),
        instances={"worker": 1},
        ports={},
        environment=tuple(Variable(name, value, "platform") for name, value in (environment or {}).items()),
        uses=tuple(use(chr(ord("a") + number)) for number in range(uses)),
        steps=tuple(steps),
        command=Command(command, "job.yaml:2:1"),
    )


def make_fifo(folder: Path, name: str) -> None:
    """A FIFO in the working folder of a task that is not running yet."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / "work" / name)


class TaskRun:
    """A task that is running, and what it left when it has ended."""

    def __init__(  # noqa: PLR0913 - by their names
        self,
        plan: Plan,
        options: LaunchOptions = DEFAULT,
        *,
        secrets: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int = subprocess.PIPE,
        plan_text: str | None = None,
        wrap: Sequence[str] = (),
        fds: Sequence[int] = (),
        module: str = "pai_task.supervisor.__main__",
    ) -> None:
        self.folder = Path(plan.folder)
        (self.folder / "work").mkdir(parents=True, exist_ok=True)
        (self.folder / "plan.json").write_text(json.dumps(plan.to_json()) if plan_text is None else plan_text)
        handed = os.memfd_create("secrets")
        with os.fdopen(handed, "w", closefd=False) as file:
            json.dump(secrets or {}, file)
        os.lseek(handed, 0, os.SEEK_SET)
        options = replace(
            options, secrets_fd=handed, hook_argv=options.hook_argv or tuple(python_argv(_HOOKS))
        )
        self.process = subprocess.Popen(
            [*wrap, *python_argv(module, str(self.folder), options.to_argument())],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            pass_fds=(handed, *fds),
            start_new_session=True,
        )
        os.close(handed)
        self.stdout = self.stderr = b""

    def end(self) -> int:
        """Wait for its end; the exit code."""
        self.stdout, self.stderr = self.process.communicate(timeout=60)
        return self.process.returncode

    def send(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        self.process.send_signal(number)

    def wait_for(self, path: str) -> None:
        """Block until a step or the command opens the FIFO `path` in its working folder for writing."""
        with (self.folder / "work" / path).open("rb") as fifo:
            fifo.read()

    def log(self, name: str) -> bytes:
        """A log, byte for byte."""
        return (self.folder / "logs" / name).read_bytes()

    @property
    def stdout_log(self) -> bytes:
        """What the command wrote to standard output."""
        return self.log("user-stdout/current")

    @property
    def runtime_log(self) -> list[str]:
        """The texts of ``runtime.log`` without their date."""
        lines = self.log("runtime.log").decode().splitlines()
        return [line.partition("[openpai-runtime] ")[2] for line in lines]

    @property
    def record(self) -> dict[str, Any]:
        """The exit record."""
        record: dict[str, Any] = yaml.safe_load((self.folder / "exit.yaml").read_text())
        return record


def run_task(plan: Plan, options: LaunchOptions = DEFAULT, **more: Any) -> TaskRun:
    """Run a task to its end."""
    run = TaskRun(plan, options, **more)
    run.end()
    return run


class Pretend:
    """A runner that starts nothing: it notes what is asked of it, and ends it as it was told."""

    def __init__(self, codes: dict[str, int], stop_at: str = "", reason: StopReason = "cancelled") -> None:
        self.ran: list[str] = []
        self.told: list[str | None] = []
        self.knows: dict[str, Analysis] = {}
        self.supervised = False
        self.is_cancelled = False
        self._codes = codes
        self._stop_at = stop_at
        self._reason: StopReason = reason

    def step(self, step: Step, use: UseRecord, result: Result | None) -> ExitStatus:
        self.told.append(result.outcome if result else None)
        return self._run(f"{step.phase} {use.name}")

    def start_service(self, service: Service, _: UseRecord) -> bool:
        return self._run(f"service {service.name}").code == 0

    def command(self, command: Command) -> ExitStatus:
        assert command.script
        return self._run("command")

    def decided(self, result: Result) -> None:
        self.on_disk = result

    def analyze(self, step: Step, use: UseRecord, result: Result) -> Analysis | None:
        self.ran.append(f"{step.phase} {use.name} {result.outcome}")
        return self.knows.get(use.name)

    def hold(self, result: Result) -> None:
        self.ran.append(f"hold {result.outcome}")

    def is_supervised(self) -> bool:
        return self.supervised

    def is_cancelled_within(self, seconds: float) -> bool:
        self.ran.append(f"waits {seconds:g}")
        return self.is_cancelled

    def limit(self) -> str:
        return ""

    def told_to_stop(self) -> tuple[StopReason, int | None] | None:
        return (self._reason, 15) if self._stop_at in self.ran else None

    def _run(self, what: str) -> ExitStatus:
        self.ran.append(what)
        return ExitStatus(self._codes.get(what, 0))


def isolating(package: Path) -> str:
    """A program for any Python that isolates a task, with a copy of the runtime in the folder `package`."""
    for each in (pai_document, pai_runtime, pai_task):
        shutil.copytree(Path(str(each.__file__)).parent, package / each.__name__)
    shutil.copy(isolated_task.__file__, package / "isolated_task.py")
    start = f"import sys; sys.path.insert(0, {str(package)!r}); "
    return start + "import isolated_task; sys.exit(isolated_task.main())"
