"""Jobs of the stand-in for OpenPAI: each task is a process, and FrameworkController's rules decide."""

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.openpai.submission import Submission

STOPPED, DECIDED = -210, -220
_SECRET = re.compile(r"<%\s*\$secrets\.(\w+)\s*%>")
_RUNTIME_FAULT = {
    "behavior": "UNKNOWN",
    "causer": "PAI_RUNTIME",
    "code": 256,
    "issuer": "PAI_RUNTIME",
    "phrase": "PAIRuntimeExitAbnormally",
    "reaction": "RETRY_TO_MAX",
    "reason": "PAI Runtime exit abnormally with undefined exitcode, it may have bugs",
    "repro": ["PAI Runtime exits with exitcode 1"],
    "solution": ["Contact PAI Dev to fix PAI Runtime bugs"],
    "stage": "UNKNOWN",
    "type": "PLATFORM_FAILURE",
}
_SUCCEEDED = {
    "behavior": "UNKNOWN",
    "causer": "USER_CONTAINER",
    "code": 0,
    "issuer": "USER_CONTAINER",
    "phrase": "Succeeded",
    "reaction": "NEVER_RETRY",
    "repro": ["User program exits with exitcode 0"],
    "stage": "COMPLETING",
    "type": "USER_SUCCESS",
}
_USER_STOP = {
    "behavior": "PERMANENT",
    "causer": "USER_STOP",
    "code": STOPPED,
    "issuer": "PAI_FC",
    "phrase": "StopFrameworkRequested",
    "reaction": "NEVER_RETRY",
    "reason": "User has requested to stop the job",
    "repro": ["Stop a job"],
    "stage": "UNKNOWN",
    "type": "USER_STOP",
}


def now() -> int:
    return int(time.time()) * 1000


def converted(role: str) -> str:
    """The name of a role in every address and reply."""
    return re.sub("[^a-z0-9]", "", role.lower())


@dataclass
class TaskAttempt:
    """A pod, which is a process here."""

    number: int
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: int = field(default_factory=now)
    launched: int | None = None
    completed: int | None = None
    code: int | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> str:
        if self.code is None:
            return "RUNNING" if self.launched else "WAITING"
        return state_of_code(self.code)


@dataclass
class Task:
    role: str
    index: int
    attempts: list[TaskAttempt] = field(default_factory=lambda: [TaskAttempt(0)])
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def last(self) -> TaskAttempt:
        return self.attempts[-1]


@dataclass
class JobAttempt:
    number: int
    tasks: list[Task]
    created: int = field(default_factory=now)
    launched: int | None = None
    completed: int | None = None
    code: int | None = None
    trigger: Task | None = None


def state_of_code(code: int) -> str:
    return {0: "SUCCEEDED", STOPPED: "STOPPED", DECIDED: "STOPPED"}.get(code, "FAILED")


class Job:
    """A job from its submission on. `changed` guards everything in it, and is told of each change."""

    def __init__(self, user: str, submission: Submission, folder: Path, begin: threading.Event) -> None:
        self.user, self.submission, self.folder = user, submission, folder
        self.name = f"{user}~{submission.name}"
        self.debug_id = hashlib.md5(self.name.encode(), usedforsecurity=False).hexdigest()
        self.submitted = now()
        self.tags: list[str] = []
        self.execution_type = "START"
        self.attempts: list[JobAttempt] = []
        self.over = False
        self._stopped = False
        self.changed = threading.Condition()
        self._begin = begin
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def roles(self) -> Mapping[str, Any]:
        roles: Mapping[str, Any] = self.submission.public["taskRoles"]
        return roles

    def log_folder(self, task: Task, attempt: TaskAttempt) -> Path:
        return self.folder / "logs" / self.user / self.debug_id / converted(task.role) / attempt.uid

    def execute(self, execution_type: str) -> None:
        """STOP it. A START is shown by the replies, and does nothing."""
        with self.changed:
            self.execution_type = execution_type
            self._stopped |= execution_type == "STOP"
            self.changed.notify_all()

    def end(self) -> None:
        """Kill what is left, when the server ends."""
        self.execute("STOP")
        self._begin.set()
        with self.changed:
            for task in self.attempts[-1].tasks if self.attempts else ():
                _signal(task.last, signal.SIGKILL)
        self._thread.join(timeout=20)

    def wait(self, test: Callable[["Job"], bool], seconds: float = 60) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: test(self), seconds)

    def _run(self) -> None:
        while not self._begin.wait(0.02) and not self._stopped:
            pass
        most = int(self.submission.public.get("jobRetryCount") or 0)
        for number in range(10_000):
            tasks = [
                Task(role, index) for role, each in self.roles.items() for index in range(each["instances"])
            ]
            attempt = JobAttempt(number, tasks)
            with self.changed:
                self.attempts.append(attempt)
                for task in () if self._stopped else tasks:
                    self._start(task)
                attempt.launched = now()
                self.changed.notify_all()
                self.changed.wait_for(lambda: self._decision(self.attempts[-1]) is not None)
                code = self._decision(attempt)
            assert code is not None
            self._finish(attempt, code)
            with self.changed:
                self.over = code in (0, STOPPED) or (number >= most and most != -2)
                self.changed.notify_all()
                if self.over:
                    return

    def _decision(self, attempt: JobAttempt) -> int | None:
        """The exit code of the attempt, as soon as it has one."""
        if self._stopped:
            return STOPPED
        for role, each in self.roles.items():
            policy = each.get("completion") or {}
            ended = [task for task in attempt.tasks if task.role == role and task.last.code is not None]
            failed = [task for task in ended if task.last.code]
            fewest = policy.get("minFailedInstances") or 1
            if 0 < fewest <= len(failed):
                attempt.trigger = failed[-1]
                return failed[-1].last.code
            fewest = policy.get("minSucceededInstances") or each["instances"]
            if 0 < fewest <= len(ended) - len(failed):
                return 0
        return 0 if all(task.last.code is not None for task in attempt.tasks) else None

    def _finish(self, attempt: JobAttempt, code: int) -> None:
        with self.changed:
            running = [task.last for task in attempt.tasks if task.last.code is None]
            for each in running:
                _signal(each, signal.SIGTERM)
            self.changed.notify_all()
            self.changed.wait_for(lambda: not any(_is_alive(each) for each in running), 10)
            for each in running:
                _signal(each, signal.SIGKILL)
                each.code, each.completed = (STOPPED if code == STOPPED else DECIDED), now()
            attempt.code, attempt.completed = code, now()

    def _start(self, task: Task) -> None:
        attempt = task.last
        folder = self.log_folder(task, attempt)
        for name in ("user-stdout", "user-stderr", "user-all"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "init.log").touch()
        (folder / "runtime.log").touch()
        work = self.folder / "pods" / attempt.uid
        work.mkdir(parents=True)
        secrets = self.submission.secrets
        script = _SECRET.sub(
            lambda hit: str(secrets.get(hit[1], hit[0])), self.submission.commands[task.role]
        )
        attempt.process = subprocess.Popen(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=work,
            env={**self._environment(task), "TMPDIR": str(work)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        attempt.launched = now()
        threading.Thread(target=self._follow, args=(task, attempt, folder), daemon=True).start()

    def _follow(self, task: Task, attempt: TaskAttempt, folder: Path) -> None:
        """Copy the output as it comes; the end of the task is told after all of it."""
        process = attempt.process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with (folder / "user-all" / "current").open("ab", buffering=0) as everything:
            copies = [
                threading.Thread(target=_copy, args=(stream, folder / name / "current", everything))
                for stream, name in ((process.stdout, "user-stdout"), (process.stderr, "user-stderr"))
            ]
            for copy in copies:
                copy.start()
            for copy in copies:
                copy.join()
        code = process.wait()
        with self.changed:
            if attempt.code is None and not self._stopped:
                attempt.code = 128 - code if code < 0 else code
                attempt.completed = now()
                self._retry(task)
            self.changed.notify_all()

    def _retry(self, task: Task) -> None:
        """`taskRetryCount` counts only without gang allocation."""
        gang = (self.submission.public.get("extras") or {}).get("gangAllocation", True)
        most = int(self.roles[task.role].get("taskRetryCount") or 0)
        current = self.attempts[-1]
        if task.last.code and not gang and len(task.attempts) <= most and task in current.tasks:
            task.attempts.append(TaskAttempt(len(task.attempts)))
            self._start(task)

    def _environment(self, task: Task) -> dict[str, str]:
        counts = {role: each["instances"] for role, each in self.roles.items()}
        names, total = ",".join(counts), str(sum(counts.values()))
        role = self.roles[task.role]
        return {
            **{f"PAI_TASK_ROLE_TASK_COUNT_{name}": str(count) for name, count in counts.items()},
            **{key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ},
            **dict.fromkeys(("PAI_FRAMEWORK_NAME", "PAI_JOB_NAME"), self.name),
            **dict.fromkeys(("PAI_USER_NAME", "PAI_USERNAME"), self.user),
            **dict.fromkeys(("PAI_TASK_ROLE_LIST", "PAI_JOB_TASK_ROLE_LIST"), names),
            **dict.fromkeys(("PAI_TASKS_NUM", "PAI_JOB_TASK_COUNT"), total),
            **dict.fromkeys(("PAI_TASK_ROLE_COUNT", "PAI_TASK_ROLES_NUM"), str(len(counts))),
            **dict.fromkeys(("PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "PAI_TASK_INDEX"), str(task.index)),
            "PAI_VIRTUAL_CLUSTER": self.submission.virtual_cluster,
            "PAI_CURRENT_TASK_ROLE_NAME": task.role,
            "PAI_CURRENT_CONTAINER_IP": "127.0.0.1",
            "FC_FRAMEWORK_NAME": self.debug_id,
            "FC_FRAMEWORK_ATTEMPT_ID": str(self.attempts[-1].number),
            "FC_TASKROLE_NAME": converted(task.role),
            "FC_TASK_INDEX": str(task.index),
            "FC_TASK_ATTEMPT_ID": str(task.last.number),
            "FC_POD_UID": task.last.uid,
            "NVIDIA_VISIBLE_DEVICES": "none" if not role["resourcePerInstance"].get("gpu") else "all",
        }


def _copy(stream: IO[bytes], path: Path, everything: IO[bytes]) -> None:
    with stream, path.open("ab", buffering=0) as own:
        while data := os.read(stream.fileno(), 65536):
            own.write(data)
            everything.write(data)


def _is_alive(attempt: TaskAttempt) -> bool:
    return attempt.process is not None and attempt.process.poll() is None


def _signal(attempt: TaskAttempt, number: int) -> None:
    if attempt.process is not None and _is_alive(attempt):
        with contextlib.suppress(ProcessLookupError):  # it ends at this moment
            os.killpg(attempt.process.pid, number)


def exit_spec(code: int | None) -> dict[str, Any] | None:
    if code is None:
        return None
    if code == 0:
        return _SUCCEEDED
    if code in (STOPPED, DECIDED):
        return {**_USER_STOP, "code": code}
    return {**_RUNTIME_FAULT, "code": code}


def diagnostics(code: int | None) -> str | None:
    if code is None or code == 0:
        return None
    if code in (STOPPED, DECIDED):
        return "Stop to complete current Framework"
    return (
        "Pod failed: PodPattern unmatched:\ncontainers:\n"
        f"  - name: init\n    reason: Completed\n    code: 0\n  - name: app\n    reason: Error\n"
        f"    code: {code}\n"
    )


def ports(attempt: TaskAttempt, counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Ports as the cluster hashes them from the pod's UID."""
    for label, count in {**counts, "ssh": 1, "http": 1}.items():
        yield label, ",".join(str(_hashed(f"[{attempt.uid}][{label}][{index}]")) for index in range(count))


def _hashed(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return sum(int(digest[at : at + size], 16) for at, size in ((0, 12), (12, 12), (24, 8))) % 25000 + 15000
