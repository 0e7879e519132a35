"""Kills and signals at random moments: all that is left of a task agrees, and no process is left.

usage: python -m tools.kills runs|pods SEED COUNT

Runs are local, of two tasks. Pods need root: what is killed there is the init container, the first process of
the task's container, or another one in it. Each try is the same for the same seed, but for the moment. What a
try that found something has left stays, in the directory that it names.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

from pai_pod.bundle.make import make_bundle
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_task.exit_record import read_exit_record, read_termination_message
from pai_task.folder import Folder
from pai_task.supervisor.lifecycle import exit_events
from tests.containers import images
from tests.containers.pod import Pod
from tests.containers.runc import Mount, Running
from tests.init_harness import config
from tests.support import PROGRAM, callback, content, job, until, write_job

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
_CODE = 7
_LONGEST = 120


def _say(word: str) -> str:
    return f'echo {word} >> "$NOTES/${{PAI_TASK_INDEX:-0}}"'


_EVENTS = ("taskStarts", "taskSucceeds", "taskFails", "taskExits")
_CALLBACKS = [callback(event, _say(event), "sleep 0.05", _say(f"{event}-ended")) for event in _EVENTS]


def _commands(code: int) -> list[str]:
    return [_say("command"), "sleep 0.3 & wait", f"exit {code}"]


@dataclass(frozen=True)
class Left:
    """What is left of a task. `told`: the signals that told it to end, or to end at once."""

    code: int | None
    record: Mapping[str, Any]
    notes: Sequence[str]
    command_code: int
    told: Sequence[signal.Signals]
    message: str | None = None

    def faults(self) -> Iterator[str]:
        """What does not agree."""
        if self.message and dict(self.record) != read_termination_message(self.message):
            yield "the termination message is not the record"
        if signal.SIGKILL in self.told:
            return
        if not self.record:
            if self.notes:
                yield "no record"
            return
        if self.code != self.record["exitCode"]:
            yield f"exit code {self.code}"
        yield from self._faults_of_command()
        yield from self._faults_of_callbacks()

    def _faults_of_command(self) -> Iterator[str]:
        outcome, own = self.record["outcome"], self.record["originUserExitCode"]
        if outcome == "ok" and ("command" not in self.notes or own or self.code):
            yield "ok, and is not"
        if outcome == "failed" and own not in (self.command_code, *(128 + number for number in SIGNALS)):
            yield f"a command that ended with {own}"
        if outcome == "cancelled" and not self.told:
            yield "cancelled by nobody"

    def _faults_of_callbacks(self) -> Iterator[str]:
        failures: list[Mapping[str, Any]] = self.record.get("callbackFailures", [])
        expected = exit_events(self.record["outcome"])
        for event in _EVENTS[1:]:
            began, ended = self.notes.count(event), self.notes.count(f"{event}-ended")
            has_failed = any(failure["phase"] == event for failure in failures)
            if began > (event in expected):
                yield f"{event} ran {began} times"
            if event in expected and "taskStarts" in self.notes and not ended and not has_failed:
                yield f"{event} did not end, and nothing says so"
        if len(self.told) == 1:
            cut = [failure["phase"] for failure in failures if "cutShort" in failure]
            if cut:
                yield f"cut short by one signal: {', '.join(cut)}"


def _notes(folder: Path, index: int) -> list[str]:
    file = folder / str(index)
    return file.read_text().split() if file.exists() else []


def _record(folder: Path) -> Mapping[str, Any]:
    with suppress(OSError), Folder.at(folder) as opened:
        return read_exit_record(opened)
    return {}


def _left(mark: str) -> list[int]:
    """The processes that have this in their environment or their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(mark.encode() in (process / file).read_bytes() for file in ("environ", "cmdline")):
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def _faults_of_left(mark: str) -> Iterator[str]:
    for _ in range(1000):
        if not _left(mark):
            return
        sleep(0.01)
    yield f"processes are left: {_left(mark)}"


def _kill_with(mark: str, pid: int, number: signal.Signals) -> None:
    """Kill it if it is still one of those with this mark: its number may be another's by now."""
    process = os.pidfd_open(pid)
    try:
        if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
            signal.pidfd_send_signal(process, number)
    finally:
        os.close(process)


class _Try:
    """One try: what is killed, by which signals, and when."""

    def __init__(self, seed: int, number: int, folder: Path) -> None:
        self.random = random.Random(f"{seed}-{number}")  # noqa: S311 - not for secrets
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.mkdir(parents=True)
        self.notes.chmod(0o777)
        self.command_code = self.random.choice((0, _CODE))
        self.signals = self.random.choices(SIGNALS, k=self.random.choice((1, 1, 1, 2)))
        self.hit = "nothing"

    def send(self, what: str, send: Callable[[signal.Signals], None]) -> None:
        """Send the signals, if there is still something to send them to."""
        with suppress(OSError, subprocess.CalledProcessError):
            for number in self.signals:
                send(number)
                self.hit = what
                sleep(self.random.random() * 0.1)

    @property
    def what(self) -> str:
        """What was hit, by which signals."""
        return " ".join((self.hit, *(number.name for number in self.signals)))

    def at(self, longest: float) -> None:
        """Wait until the moment has come."""
        sleep(self.random.random() * longest)


def kill_run(seed: int, number: int, folder: Path) -> tuple[str, list[str]]:
    """A local run; what was hit by what, and what does not agree then."""
    trial = _Try(seed, number, folder)
    target = trial.random.choice(("engine", "engine", "supervisor", "command"))
    engine = _start_run(trial)
    hit_task = trial.random.choice((0, 1))
    if target == "engine":
        trial.at(2)
        trial.send("engine", engine.send_signal)
    else:
        _kill_in_task(trial, engine, folder / f"run/worker/{hit_task}", target)
    said = engine.communicate(timeout=_LONGEST)[1]
    # Python's own start shows one of its own, before there is any run.
    faults = [said] if "Traceback" in said and re.search("/pai_(runtime|task)/", said) else []
    faults += _faults_of_left(str(folder))
    if (folder / "run/run.json").exists() and not (trial.hit == "engine" and signal.SIGKILL in trial.signals):
        faults += _faults_of_run(trial, engine.returncode, hit_task)
    return trial.what, faults


def _kill_in_task(trial: _Try, engine: "subprocess.Popen[str]", task: Path, target: str) -> None:
    """Its supervisor, or a child of that, some time after it has started."""
    until(lambda: b"pid" in content(task / "state.json") or engine.poll() is not None)
    trial.at(1)
    with suppress(OSError, ValueError, IndexError, KeyError):
        pid = int(json.loads((task / "state.json").read_text())["pid"])
        if target != "supervisor":
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            pid = int(trial.random.choice(children))
        trial.send(target, partial(_kill_with, str(trial.folder), pid))


def _start_run(trial: _Try) -> "subprocess.Popen[str]":
    folder, notes = trial.folder, trial.notes
    tidy = {"name": "tidy", "callbacks": _CALLBACKS}
    worker = {"instances": 2, "prerequisites": ["tidy"], "commands": _commands(trial.command_code)}
    extras = {"storages": [{"name": "notes", "mountPath": str(notes)}]}
    path = write_job(folder, job(prerequisites=[tidy], worker=worker, extras=extras))
    argv: list[str | Path] = [PROGRAM, "run", path, "--plain", "--out", folder / "run", "--env", "NOTES"]
    mode = trial.random.choice(("auto", "none"))
    return subprocess.Popen(
        [*argv, "--isolation", mode, f"--storage=notes={notes}"],
        env={**os.environ, "NOTES": str(notes)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _faults_of_run(trial: _Try, status: int, hit_task: int) -> Iterator[str]:
    run = json.loads((trial.folder / "run/run.json").read_text())
    if "outcome" not in run:
        if not {-status, status - 128} & set(trial.signals):  # which it was not listening for yet
            yield f"exit status {status} of a run without an outcome"
        return
    codes = {
        "succeeded": [0],
        "cancelled": [128 + each for each in trial.signals],
        "failed": [each["exitCode"] for each in run["tasks"]],
    }
    if status not in codes[run["outcome"]]:
        yield f"exit status {status} of a run that has {run['outcome']}"
    for task in run["tasks"]:
        index, state = task["index"], task["state"]
        is_hit = trial.hit == "engine" or (trial.hit, index) == ("supervisor", hit_task)
        told = trial.signals if is_hit else []
        if trial.hit != "engine" and state == "stopped":  # because of the other one
            told = [*told, signal.SIGTERM]
        record, notes = _record(trial.folder / f"run/worker/{index}"), _notes(trial.notes, index)
        left = Left(task["exitCode"], record, notes, trial.command_code, told)
        yield from (f"task {index}: {fault}: {left}" for fault in left.faults())


@dataclass(frozen=True)
class PodParts:
    """What all pods are made of; `prepared`: what init has left, for each exit code of the command."""

    bundle: Path
    image: Path
    prepared: Mapping[int, Path]


def parts_of_pods(folder: Path, bundle: Path, image: Path) -> PodParts:
    """Made once, in `folder`."""
    prepared = {}
    for code in (0, _CODE):
        pod = Pod(folder / f"prepared-{code}", bundle, "proposal")
        ended = _init(pod, code).end()
        if ended.code:
            raise RuntimeError(f"init failed: {ended}")
        prepared[code] = pod.volume
    return PodParts(bundle, image, prepared)


def _parts_of_this_machine(folder: Path) -> PodParts:
    bundle, image = folder / "bundle", folder / "image"
    image.mkdir()
    images.busybox(image)
    make_bundle(bundle, Host(NO_POLICY), lambda _: None)
    return parts_of_pods(folder, bundle, image)


def _init(pod: Pod, code: int) -> Running:
    use = {"plugin": "cmd", "parameters": {"callbacks": _CALLBACKS}}
    return pod.start_init({"RUNTIME_CONFIG": config(*_commands(code), uses=[use]), "INIT_CONFIG": ""})


def kill_pod(parts: PodParts, seed: int, number: int, folder: Path) -> tuple[str, list[str]]:
    """A pod; what was hit by what, and what does not agree then."""
    trial = _Try(seed, number, folder)
    target = trial.random.choice(("init", "first", "first", "other"))
    pod = Pod(folder / "pod", parts.bundle, "proposal")
    if target == "init":
        code = _kill_init(trial, pod)
        faults = [] if code in (0, *(128 + each for each in trial.signals)) else [f"init ended with {code}"]
        if code:  # the kubelet starts no task then
            return trial.what, [*faults, *_faults_of_left(str(folder))]
    else:
        faults = []
        _copy_but_the_bundle(parts.prepared[trial.command_code], pod.volume)
    faults += _faults_of_pod(trial, pod, parts.image, target)
    return trial.what, faults


def _kill_init(trial: _Try, pod: Pod) -> int:
    init = _init(pod, trial.command_code)
    init.wait_for_start()
    trial.at(3)
    trial.send("init", init.send)
    return init.end().code


def _faults_of_pod(trial: _Try, pod: Pod, image: Path, target: str) -> Iterator[str]:
    user, mounts = trial.random.choice((0, 12345)), [Mount(trial.notes, "/notes")]
    mark = f"NOTES_OF={trial.folder}"
    env = {"NOTES": "/notes", "NOTES_OF": str(trial.folder)}
    task = pod.task(image, user=user, env=env, mounts=mounts, read_only=True)
    task.wait_for_start()
    trial.at(1.2)
    if target == "first":
        trial.send(target, task.send)
    elif target == "other":
        with suppress(OSError, IndexError):
            pid = trial.random.choice(_left(mark))
            trial.send(target, partial(_kill_with, mark, pid))
    ended = task.end()
    yield from _faults_of_left(str(trial.folder))
    if "Traceback" in ended.stderr:
        yield ended.stderr
    told = trial.signals if trial.hit == "first" else []
    record, notes = _record(pod.logs), _notes(trial.notes, 0)
    left = Left(ended.code, record, notes, trial.command_code, told, pod.termination_message)
    yield from (f"{fault}: {left}" for fault in left.faults())
    if signal.SIGKILL not in told and not (record and left.message):
        yield f"no record or no termination message: {left} {ended}"


def _copy_but_the_bundle(prepared: Path, volume: Path) -> None:
    """The bundle is mounted then, as an image volume is."""
    names = [each for each in prepared.iterdir() if each.name != "bundle"]
    subprocess.run(["cp", "-a", *names, volume], check=True)


Kill = Callable[[int, int, Path], tuple[str, list[str]]]


def kills(kill: Kill, seed: int, count: int, workers: int) -> int:
    """So many tries; in how many of them something does not agree."""

    def one(number: int) -> tuple[str, list[str]]:
        folder = Path(tempfile.mkdtemp(prefix=f"kill-{number}-"))
        folder.chmod(0o755)
        what, faults = kill(seed, number, folder)
        for fault in faults:
            print(f"{number} ({what}, {folder}): {fault}", flush=True)
        if not faults:
            shutil.rmtree(folder)
        return what, faults

    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(one, range(count)))
    for what, times in sorted(Counter(what for what, _ in done).items()):
        print(f"{times:4} {what}")
    bad = sum(1 for _, faults in done if faults)
    print(f"{count} tries: in {bad} of them something does not agree, or is left")
    return bad


def main() -> int:
    kind, seed, count = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kills-") as made:
        kill = kill_run if kind == "runs" else partial(kill_pod, _parts_of_this_machine(Path(made)))
        return min(kills(kill, int(seed), int(count), 2 * (os.cpu_count() or 1)), 1)


if __name__ == "__main__":
    sys.exit(main())
