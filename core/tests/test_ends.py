"""How a task can end: each phase, with each kind of end, and what comes of it."""

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pai_task.launch import LaunchOptions
from pai_task.plan import EVENTS, Plan, PlannedService, Service, Step
from tests import jumping_clock
from tests.jumping_clock import JUMP, JUMP_SECONDS
from tests.plugin_factory import Site
from tests.task_harness import TaskRun, plan, shell

# Three uses, a, b and c, have a callback for every event. In the phase of its row, b's callback (or its init
# hook, or its required service, or the command) ends in the row's way:
#   ok, error      its script ends with 0, or with 3
#   signal         its shell dies of SIGSEGV
#   killed         its shell, the leader of its group, is killed from outside; a child of the shell lives on
#   cancel         SIGTERM to the supervisor meanwhile
#   timeout        the time limit runs out meanwhile
#   deaf-cancel    the same two, but it does not end at SIGTERM; in an exit callback, the time that exit
#   deaf-timeout   callbacks have is over as well
#   twice          SIGINT and SIGTERM to the supervisor, one right after the other
# What has to come of it:
#   callbacks      by phase, in their order: `b` ran, `b=3` ran and is reported to have failed with code 3,
#                  `-b=143` did not run and is reported so; `service` is b's
#   command        the exit code of the command, where it ran
#   then           outcome, exit code, signal, and the phase in which that was decided
_TABLE = """
phase         how           init   taskStarts   command  taskSucceeds      taskFails         taskExits                outcome       code signal decided

init          ok            a,b,c  a,b,c        0        c,b,a             -                 c,b,a                    ok            0    -      command
init          error         a,b    -            -        -                 b,a               b,a                      setup-failed  240  -      init
init          signal        a,b    -            -        -                 b,a               b,a                      setup-failed  240  11     init
init          killed        a,b    -            -        -                 b,a               b,a                      setup-failed  240  9      init
init          cancel        a,b    -            -        -                 -                 b,a                      cancelled     143  15     init
init          timeout       a,b    -            -        -                 b,a               b,a                      timeout       242  -      init
init          deaf-cancel   a,b    -            -        -                 -                 b,a                      cancelled     143  15     init
init          deaf-timeout  a,b    -            -        -                 b,a               b,a                      timeout       242  -      init
init          twice         a,b    -            -        -                 -                 -b=137,-a=137            cancelled     130  2      init

taskStarts    error         -      a,b          -        -                 b,a               b,a                      setup-failed  240  -      taskStarts
taskStarts    signal        -      a,b          -        -                 b,a               b,a                      setup-failed  240  11     taskStarts
taskStarts    killed        -      a,b          -        -                 b,a               b,a                      setup-failed  240  9      taskStarts
taskStarts    cancel        -      a,b          -        -                 -                 b,a                      cancelled     143  15     taskStarts
taskStarts    timeout       -      a,b          -        -                 b,a               b,a                      timeout       242  -      taskStarts
taskStarts    deaf-cancel   -      a,b          -        -                 -                 b,a                      cancelled     143  15     taskStarts
taskStarts    deaf-timeout  -      a,b          -        -                 b,a               b,a                      timeout       242  -      taskStarts
taskStarts    twice         -      a,b          -        -                 -                 -b=137,-a=137            cancelled     130  2      taskStarts

service       ok            -      a,b,service,c  0      c,b,a             -                 c,b,a                    ok            0    -      command
service       error         -      a,b,service  -        -                 b,a               b,a                      setup-failed  240  -      taskStarts
service       signal        -      a,b,service  -        -                 b,a               b,a                      setup-failed  240  -      taskStarts
service       killed        -      a,b,service  -        -                 b,a               b,a                      setup-failed  240  -      taskStarts
service       cancel        -      a,b,service  -        -                 -                 b,a                      cancelled     143  15     taskStarts
service       timeout       -      a,b,service  -        -                 b,a               b,a                      timeout       242  -      taskStarts
service       deaf-cancel   -      a,b,service  -        -                 -                 b,a                      cancelled     143  15     taskStarts
service       deaf-timeout  -      a,b,service  -        -                 b,a               b,a                      timeout       242  -      taskStarts

command       ok            -      a,b,c        0        c,b,a             -                 c,b,a                    ok            0    -      command
command       error         -      a,b,c        3        -                 c,b,a             c,b,a                    failed        3    -      command
command       signal        -      a,b,c        139      -                 c,b,a             c,b,a                    failed        139  11     command
command       killed        -      a,b,c        137      -                 c,b,a             c,b,a                    failed        137  9      command
command       cancel        -      a,b,c        143      -                 -                 c,b,a                    cancelled     143  15     command
command       timeout       -      a,b,c        143      -                 c,b,a             c,b,a                    timeout       242  -      command
command       deaf-cancel   -      a,b,c        137      -                 -                 c,b,a                    cancelled     143  15     command
command       deaf-timeout  -      a,b,c        137      -                 c,b,a             c,b,a                    timeout       242  -      command
command       twice         -      a,b,c        137      -                 -                 -c=137,-b=137,-a=137     cancelled     130  2      command

taskSucceeds  error         -      a,b,c        0        c,b=3,a           -                 c,b,a                    ok            0    -      command
taskSucceeds  signal        -      a,b,c        0        c,b=139,a         -                 c,b,a                    ok            0    -      command
taskSucceeds  killed        -      a,b,c        0        c,b=137,a         -                 c,b,a                    ok            0    -      command
taskSucceeds  cancel        -      a,b,c        0        c,b,a             -                 c,b,a                    ok            0    -      command
taskSucceeds  timeout       -      a,b,c        0        c,b,a             -                 c,b,a                    ok            0    -      command
taskSucceeds  deaf-cancel   -      a,b,c        0        c,b=137,-a=143    -                 -c=143,-b=143,-a=143     ok            0    -      command
taskSucceeds  deaf-timeout  -      a,b,c        0        c,b=137,-a=143    -                 -c=143,-b=143,-a=143     ok            0    -      command
taskSucceeds  twice         -      a,b,c        0        c,b=137,-a=137    -                 -c=137,-b=137,-a=137     ok            0    -      command

taskFails     ok            -      a,b,c        4        -                 c,b,a             c,b,a                    failed        4    -      command
taskFails     error         -      a,b,c        4        -                 c,b=3,a           c,b,a                    failed        4    -      command
taskFails     signal        -      a,b,c        4        -                 c,b=139,a         c,b,a                    failed        4    -      command
taskFails     killed        -      a,b,c        4        -                 c,b=137,a         c,b,a                    failed        4    -      command
taskFails     cancel        -      a,b,c        4        -                 c,b,a             c,b,a                    failed        4    -      command
taskFails     timeout       -      a,b,c        4        -                 c,b,a             c,b,a                    failed        4    -      command
taskFails     deaf-cancel   -      a,b,c        4        -                 c,b=137,-a=143    -c=143,-b=143,-a=143     failed        4    -      command
taskFails     deaf-timeout  -      a,b,c        4        -                 c,b=137,-a=143    -c=143,-b=143,-a=143     failed        4    -      command
taskFails     twice         -      a,b,c        4        -                 c,b=137,-a=137    -c=137,-b=137,-a=137     failed        4    -      command

taskExits     error         -      a,b,c        0        c,b,a             -                 c,b=3,a                  ok            0    -      command
taskExits     signal        -      a,b,c        0        c,b,a             -                 c,b=139,a                ok            0    -      command
taskExits     killed        -      a,b,c        0        c,b,a             -                 c,b=137,a                ok            0    -      command
taskExits     cancel        -      a,b,c        0        c,b,a             -                 c,b,a                    ok            0    -      command
taskExits     timeout       -      a,b,c        0        c,b,a             -                 c,b,a                    ok            0    -      command
taskExits     deaf-cancel   -      a,b,c        0        c,b,a             -                 c,b=137,-a=143           ok            0    -      command
taskExits     deaf-timeout  -      a,b,c        0        c,b,a             -                 c,b=137,-a=143           ok            0    -      command
taskExits     twice         -      a,b,c        0        c,b,a             -                 c,b=137,-a=137           ok            0    -      command
"""  # noqa: E501 - a table is read in rows

_AS_OK = "it is the row `command ok`"
_LEFT_OUT = {
    ("taskStarts", "ok"): _AS_OK,
    ("taskSucceeds", "ok"): _AS_OK,
    ("taskExits", "ok"): _AS_OK,
    ("service", "twice"): "the first signal ends the wait, so the second comes in an exit callback",
}

_AFTER_COMMAND = ("taskSucceeds", "taskFails", "taskExits")
_PHASES = ("init", "taskStarts", "service", "command", *_AFTER_COMMAND)
_NOTED = ("init", "taskStarts", "command", *_AFTER_COMMAND)

_WAITS = "echo > ready\nread -r line < go"
_DEAF = "trap 'echo > told' TERM\necho > ready\nwhile :; do sleep 0.01 || :; done"
_SCRIPTS = {
    "ok": ":",
    "error": "exit 3",
    "signal": "ulimit -c 0\nkill -SEGV $$",
    "killed": "sleep 1000 &\necho $$ > leader\necho > ready\nwait",
    "cancel": _WAITS,
    "timeout": _WAITS,
    "deaf-cancel": _DEAF,
    "deaf-timeout": _DEAF,
    "twice": f"trap '' TERM\n{_WAITS}",
}
_SIGNALS = {
    "cancel": [signal.SIGTERM],
    "timeout": [JUMP],
    "deaf-cancel": [signal.SIGTERM],
    "deaf-timeout": [JUMP],
    "twice": [signal.SIGINT, signal.SIGTERM],  # two of the same might arrive as one
}

_PLUGIN = {"plugin": "org.example.test", "distribution": "pai-test 1.0", "source": "job.yaml:1:1"}
_INIT_RUNS_ITS_SCRIPT = """
import os
@hookimpl
def pai_init(use, task):
    os.execlp("sh", "sh", "-c", use.parameters["script"])
"""


_HEADER, *_CELLS = (line.split() for line in _TABLE.splitlines() if line)
_ROWS = [dict(zip(_HEADER, cells, strict=True)) for cells in _CELLS]


@pytest.mark.process
@pytest.mark.parametrize("row", _ROWS, ids=lambda row: f"{row['phase']} {row['how']}")
def test_each_end_in_each_phase_has_its_callbacks_and_its_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, str]
) -> None:
    site = Site(tmp_path)
    plugin = site.add("org.example.test", _INIT_RUNS_ITS_SCRIPT, distribution="pai-test", hooks=["pai_init"])
    monkeypatch.syspath_prepend(site.folder)
    deaf_callback = row["phase"] in _AFTER_COMMAND and row["how"].startswith("deaf")
    exit_budget = 0 if deaf_callback else 10**6
    work = tmp_path / "task" / "work"
    work.mkdir(parents=True)
    for fifo in ("ready", "go", "told"):
        os.mkfifo(work / fifo)
    run = TaskRun(
        _plan(tmp_path / "task", row, plugin.digest),
        LaunchOptions(timeout=JUMP_SECONDS, grace=JUMP_SECONDS, exit_budget=exit_budget),
        module=jumping_clock.__name__,
    )
    _end(run, row)
    assert run.end() == int(row["code"]), run.stderr

    cells = {**row, "command": "-" if row["command"] == "-" else "b"}
    items = [(phase, item) for phase in _NOTED for item in cells[phase].split(",") if item != "-"]
    told = dict.fromkeys(_AFTER_COMMAND, f" {row['outcome']} {row['code']}")
    assert (work / "ran").read_text().splitlines() == [
        f"{phase} {item.partition('=')[0]}{told.get(phase, '')}" for phase, item in items if item[0] != "-"
    ]
    record = run.record
    failures = [
        {"phase": phase, "exitCode": int(code), "use": use.lstrip("-"), **_PLUGIN, **_cut_short(use, row)}
        for phase, item in items
        for use, equals, code in [item.partition("=")]
        if equals
    ]
    assert record.get("callbackFailures", []) == failures
    assert record.get("callbackFailureCount", 0) == len(failures)
    keys = ("outcome", "exitCode", "signal", "phase", "originUserExitCode")
    expected = [row[name] for name in ("outcome", "code", "signal", "decided", "command")]
    assert ["-" if record[key] is None else str(record[key]) for key in keys] == expected
    assert record.get("failedUse") == ({"use": "b", **_PLUGIN} if row["outcome"] == "setup-failed" else None)
    assert not list(_processes_in(work))


def test_every_phase_has_every_end_or_a_reason_why_not() -> None:
    rows = [(row["phase"], row["how"]) for row in _ROWS]
    assert sorted([*rows, *_LEFT_OUT]) == sorted(itertools.product(_PHASES, _SCRIPTS))


def _cut_short(use: str, row: dict[str, str]) -> dict[str, str]:
    if use.startswith("-"):
        return {"cutShort": "skipped"}
    return {"cutShort": "stopped"} if row["how"] in ("deaf-cancel", "deaf-timeout", "twice") else {}


def _plan(folder: Path, row: dict[str, str], digest: str) -> Plan:
    def script(phase: str, name: str) -> str:
        note = f"echo {phase} {name} $PAI_TASK_OUTCOME $PAI_TASK_EXIT_CODE >> ran\n"
        return note + (_SCRIPTS[row["how"]] if (phase, name) == (row["phase"], "b") else ":")

    steps = [shell(event, number, script(event, use)) for number, use in enumerate("abc") for event in EVENTS]
    task = plan(folder, script("command", "b") + ("\nexit 4" if row["phase"] == "taskFails" else ""), steps)
    if row["phase"] == "init":
        hooks = [Step("init", number, "fail", hook="pai_init") for number in range(3)]
        uses = tuple(
            replace(use, parameters={"script": script("init", use.name)}, digest=digest) for use in task.uses
        )
        task = replace(task, uses=uses, steps=(*hooks, *steps))
    if row["phase"] == "service":
        ends = "touch up\nexec sleep 1000" if row["how"] == "ok" else _SCRIPTS[row["how"]]
        service = Service(
            "b's",
            f"echo taskStarts service >> ran\n{ends}",
            "[ -e up ]",
            10**6,
            restart="never",
            required=True,
        )
        task = replace(task, services=(PlannedService(1, service),))
    return task


def _end(run: TaskRun, row: dict[str, str]) -> None:
    """What happens from outside once the phase is reached."""
    how = row["how"]
    if how in ("ok", "error", "signal"):
        return
    run.wait_for("ready")
    work = run.folder / "work"
    if how == "killed":
        os.kill(int((work / "leader").read_text()), signal.SIGKILL)
    for number in _SIGNALS.get(how, ()):
        run.send(number)
    if how.startswith("deaf"):
        run.wait_for("told")
        run.send(JUMP)  # over the time until SIGKILL
    elif how in ("cancel", "timeout") and row["phase"] in _AFTER_COMMAND:
        (work / "go").write_text("\n")  # an exit callback is not disturbed; it goes on


def _processes_in(folder: Path) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder:
                yield (process / "cmdline").read_text()
