"""The code of a plugin, while a plan is made: whatever it does, the command ends, and says who it was."""

import json
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.host.separate_process import MOST_BYTES
from tests.plugin_factory import GREETS, Made, Site, uses
from tests.support import job, write_job

pytestmark = pytest.mark.process

HOOK = "@hookimpl\ndef pai_prerequisite(use, task):\n"

COMMANDS = {"plan": 1, "run": 2, "validate": 1}
"""What makes plans, and its exit status if that fails."""


def in_hook(body: str) -> str:
    """A hook of which each line of `body` is one."""
    return HOOK + "".join(f"    {line}\n" for line in body.splitlines())


def impatient(
    site: Site, *args: str | Path, before: str = "", seconds: int = 1, **more: Any
) -> subprocess.CompletedProcess[str]:
    """The command with less patience, in a process of its own.

    It is over only when no process is left that has its standard error.
    """
    main = (
        "import sys; from pai_runtime.host import host, separate_process as apart;"
        f"apart.LONGEST_CALL = host.LONGEST_CHECK = {seconds}\n{before}\n"
        "from pai_runtime.cli import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", main, *map(str, args)],
        env={**os.environ, **site.environment()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **more,
    )


def assert_blamed(result: subprocess.CompletedProcess[str], path: Path, made: Made, what: str) -> None:
    assert "Traceback" not in result.stderr
    (line, *_) = [line for line in result.stderr.splitlines() if ": error: " in line]
    assert line.startswith(f"{path}:8:3: error: use 'use0': {made.label}, {what}")


# Its process ends

ENDS = {
    "leaves with 0": ("import os; os._exit(0)", "ended the process with exit code 0"),
    "leaves with 7": ("import os; os._exit(7)", "ended the process with exit code 7"),
    "aborts": ("import os; os.abort()", "was killed by SIGABRT"),
    "crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    "leaves, and a fork of it goes on": (
        "import os\nif os.fork(): os._exit(0)",
        "ended the process with exit code 0",
    ),
    "becomes another program": ("import os; os.execv('/bin/true', ['true'])", "ended the process"),
    "closes all files": ("import os; os.closerange(0, 256)", "ended the process with exit code 1"),
    "interrupts": ("raise KeyboardInterrupt", "ended the process with exit code 1"),
}
PREVENTED = {"leaves, and a fork of it goes on", "becomes another program"}
"""What a check does not let happen."""


@pytest.mark.parametrize("command", COMMANDS)
def test_hooks_that_end_their_process_are_errors_of_their_plugins(
    site: Site, tmp_path: Path, command: str
) -> None:
    path = write_job(tmp_path, job(**uses(*(f"org.bad{number}" for number in range(len(ENDS))))))
    blamed = []
    for number, (body, what) in enumerate(ENDS.values()):
        made = site.add(f"org.bad{number}", in_hook(body))
        place = f"{path}:{8 + 3 * number}:3: error: use 'use{number}'"
        blamed.append(f"{place}: {made.label}, hook pai_prerequisite: {what}")
    result = site.cli(command, path, cwd=tmp_path)
    assert result.returncode == COMMANDS[command]
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if ": error: " in line]
    for line, expected in zip(lines, blamed, strict=True):
        assert line.startswith(expected)
    assert not (tmp_path / ".pai-runs").exists()


@pytest.mark.parametrize(
    ("end", "where"), [(end, ("hook", "import")[number % 2]) for number, end in enumerate(ENDS)]
)
def test_a_check_says_that_a_plugin_ends_the_process(site: Site, end: str, where: str) -> None:
    body, what = ENDS[end]
    code, example = (body, "") if where == "import" else (in_hook(body), "example 0: pai_prerequisite ")
    made = site.add("org.bad", code, parameters={"type": "object", "examples": [{}, {}]})
    result = site.cli("plugins", "check", "org.bad")
    assert (result.returncode, result.stdout) == (1, "")
    what = "SideEffect: starts a process" if end in PREVENTED else what
    assert result.stderr.startswith(f"{made.label}: {example}{what}")


def test_the_other_plugins_are_asked_although_some_end_their_process(site: Site, tmp_path: Path) -> None:
    site.add("org.good", GREETS)
    plugins, said = ["org.good"], []
    for number, (body, what) in enumerate(ENDS.values()):
        site.add(f"org.bad{number}", in_hook(body))
        site.add(f"org.worse{number}", body)
        plugins += [f"org.bad{number}", "org.good", f"org.worse{number}", f"org.bad{number}", "org.good"]
        said += [f"hook pai_prerequisite: {what}", f"import: {what}", f"hook pai_prerequisite: {what}"]
    document = job(**uses(*plugins, failurePolicy="ignore"))
    document["taskRoles"]["worker"]["instances"] = 3
    result = site.cli("plan", write_job(tmp_path, document), "--json")
    assert result.returncode == 0, result.stderr
    good = [f"use{number}" for number, plugin in enumerate(plugins) if plugin == "org.good"]
    for plan in json.loads(result.stdout)["plans"]:
        assert [use["name"] for use in plan["uses"]] == [*good, "failure_analysis", "hang"]
        assert len(plan["warnings"]) == len(said)
        for warning, expected in zip(plan["warnings"], said, strict=True):
            assert expected in warning


# It takes for ever

HANGS = {
    "ignores alarms": "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
    "catches everything": (
        "import time\nwhile True:\n    try: time.sleep(100)\n    except BaseException: pass"
    ),
    "blocks all signals": (
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ntime.sleep(1000)"
    ),
    "backtracks": "import re\nre.match('(a+)+$', 'a' * 60 + '!')",
    "waits with a program": "import subprocess\nsubprocess.run(['sleep', '1000'], check=False)",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "closes the pipe": "import os, time\nos.closerange(3, 256)\ntime.sleep(1000)",
    "trickles": (
        "import os, time\nwhile not time.sleep(0.1):\n    for fd in range(3, 32):\n"
        "        try: os.write(fd, b' ')\n        except OSError: pass"
    ),
    "waits in a fork": "import os, time\nif not os.fork(): time.sleep(1000)\nos.wait()",
}


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_plugin_that_takes_for_ever_is_killed_and_named(site: Site, tmp_path: Path, body: str) -> None:
    path = write_job(tmp_path, job(**uses("org.imported", "org.called")))
    imported, called = site.add("org.imported", body), site.add("org.called", in_hook(body))
    result = impatient(site, "plan", path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr
    first, second = (line for line in result.stderr.splitlines() if ": error: " in line)
    assert f"{imported.label}, import: timed out after" in first
    assert f"{called.label}, hook pai_prerequisite: timed out after" in second


@pytest.mark.parametrize("command", [["run"], ["validate"], ["plugins", "check"]])
def test_no_command_waits_for_ever(site: Site, tmp_path: Path, command: list[str]) -> None:
    made = site.add("org.hangs", in_hook(HANGS["catches everything"]), parameters={"examples": [{}]})
    asked = "org.hangs" if "check" in command else write_job(tmp_path, job(**uses("org.hangs")))
    result = impatient(site, *command, asked, cwd=tmp_path)
    assert result.returncode in (1, 2)
    assert made.label in result.stderr
    assert "timed out after" in result.stderr


def test_a_call_may_take_its_time_and_each_has_its_own(site: Site, tmp_path: Path) -> None:
    site.add("org.slow", in_hook("import time\ntime.sleep(0.9)"))
    document = job(**uses("org.slow"))
    document["taskRoles"]["worker"]["instances"] = 4
    assert impatient(site, "plan", write_job(tmp_path, document), seconds=3).returncode == 0


SLOW_SCHEMAS: dict[str, dict[str, Any]] = {
    "pattern": {"properties": {"text": {"pattern": "^(a+)+$"}}},
    "name": {
        "patternProperties": {"^(t|te|tex|text|e|x|t)+!$": {}},
        "propertyNames": {"pattern": "^(.+)+!$"},
    },
    "tree": {
        "$ref": "#/$defs/0",
        "$defs": {
            **{str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)},
            "60": {"type": "object"},
        },
    },
}


@pytest.mark.parametrize(
    ("command", "schema"), [("plan", "pattern"), ("run", "name"), ("validate", "tree"), ("check", "pattern")]
)
def test_a_schema_that_takes_for_ever_is_an_error_of_its_plugin(
    site: Site, tmp_path: Path, command: str, schema: str
) -> None:
    parameters = {"text": "a" * 60 + "?", "t" * 60: 1}
    made = site.add("org.slow", parameters={**SLOW_SCHEMAS[schema], "examples": [parameters]})
    if command == "check":
        result = impatient(site, "plugins", "check", "org.slow")
    else:
        document = job(**uses("org.slow"))
        document["prerequisites"][1]["parameters"] = parameters
        result = impatient(site, command, write_job(tmp_path, document), cwd=tmp_path)
    assert result.returncode == COMMANDS.get(command, 1)
    assert f"the manifest of {made.label} cannot be used to check parameters" in result.stderr
    assert site.imported <= {"org_slow"} if command == "check" else not site.imported


# What it leaves behind

LEAVES = {
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
    "a process": "import subprocess\nsubprocess.Popen(['sleep', '1000'])",
    "a fork": "import os, time\nif not os.fork(): time.sleep(1000)",
    "a second of itself": "import os\nos.fork()",
    "an exit handler": "import atexit, time\natexit.register(time.sleep, 1000)",
    "a timer": "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\nsignal.alarm(1)",
    "no recursion": "import sys\nsys.setrecursionlimit(150)",
    "no exit": "import os\nos._exit = lambda _: None",
    "a trace": "import sys\nsys.settrace(lambda *_: None)",
    "no input": "import sys\nassert sys.stdin.read() == ''",
}


@pytest.mark.parametrize("body", LEAVES.values(), ids=LEAVES)
def test_what_a_plugin_leaves_behind_ends_with_the_planning(site: Site, tmp_path: Path, body: str) -> None:
    site.add("org.imported", body + "\n" + GREETS)
    site.add("org.called", in_hook(body))
    site.add("org.good", GREETS)
    document = job(**uses("org.imported", "org.called", "org.good"))
    document["taskRoles"]["worker"]["commands"] = ["echo ran"]
    result = site.cli("run", write_job(tmp_path, document), cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "ran\n"), result.stderr
    assert [path.name for path in (tmp_path / ".pai-runs").iterdir()] == ["test-1"]


def test_a_crash_is_seen_where_the_signal_of_ended_children_is_ignored(site: Site, tmp_path: Path) -> None:
    made = site.add("org.bad", in_hook("import os; os._exit(0)"))
    site.add("org.good", GREETS)
    path = write_job(tmp_path, job(**uses("org.bad", "org.good")))
    ignore = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    result = impatient(site, "plan", path, before=ignore, seconds=60)
    assert (result.returncode, result.stdout) == (1, "")
    assert_blamed(result, path, made, "hook pai_prerequisite: ended the process")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_takes_the_plugins_with_it(
    site: Site, tmp_path: Path, number: signal.Signals
) -> None:
    body = (
        "import os, signal, sys, time\nfor each in (1, 2, 15): signal.signal(each, signal.SIG_IGN)\n"
        "if os.fork():\n    sys.stderr.write('up\\n')\n    sys.stderr.flush()\ntime.sleep(1000)"
    )
    site.add("org.hangs", in_hook(body))
    path = write_job(tmp_path, job(**uses("org.hangs")))
    program = Path(sys.executable).with_name("pai-runtime")
    with subprocess.Popen(
        [program, "plan", path], env={**os.environ, **site.environment()}, stderr=subprocess.PIPE
    ) as command:
        assert command.stderr is not None
        assert command.stderr.readline() == b"up\n"
        command.send_signal(number)
        assert command.stderr.read() == b""  # nobody is left to write to it
    assert command.returncode == (130 if number == signal.SIGINT else -number)


def test_where_no_process_can_be_started_that_is_said(site: Site, tmp_path: Path) -> None:
    none = "import os\ndef fork(): raise BlockingIOError(11, 'no more')\nos.fork = fork"
    site.add("org.good", GREETS)
    for command, status in COMMANDS.items():
        path = write_job(tmp_path, job(**uses("org.good")))
        result = impatient(site, command, path, before=none, cwd=tmp_path)
        assert result.returncode == status
        assert "cannot start a process" in result.stderr
        assert "Traceback" not in result.stderr
    assert impatient(site, "plugins", "check", "org.good", before=none).returncode == 2


# What it answers

GARBAGE = "import os\nfor fd in range(3, 256):\n    try: os.write(fd, {!r})\n    except OSError: pass"


def contribution(field: bytes) -> bytes:
    empty = b'"environment": {}, "steps": [], "services": [], "mounts": [], "exit_rules": []'
    return b'{"contribution": {%b, %b}}' % (empty, field)


FORGED = {
    "no JSON": b"garbage",
    "text": b'"hello"',
    "nothing": b"null",
    "as before, and nothing was": b'"as before"',
    "too deep": b"[" * 50_000,
    "an error that is no text": b'{"error": 1}',
    "no fields": b'{"contribution": {}}',
    "a list": b'{"contribution": []}',
    "other fields": contribution(b'"more": 1'),
    "a step with more": contribution(b'"steps": [["taskStarts", "", null, 1]]'),
    "a step that is text": contribution(b'"steps": ["abc"]'),
    "an environment that is a list": contribution(b'"environment": []'),
    "a rule with NaN": contribution(b'"exit_rules": [{"code": NaN}]'),
    "a service with NaN": contribution(b'"services": [["a", "b", null, 1, "never", false, null, NaN]]'),
    "a code that is none": contribution(b'"permanent_codes": [true]'),
    "a NUL": contribution(b'"environment": {"A": "\\u0000"}'),
    "a number that is too long": contribution(b'"exit_rules": [{"code": ' + b"1" * 9000 + b"}]"),
}


def test_what_plugins_write_to_the_pipe_is_checked(site: Site, tmp_path: Path) -> None:
    site.add("org.good", GREETS)
    path = write_job(
        tmp_path, job(**uses(*(f"org.forges{number}" for number in range(len(FORGED))), "org.good"))
    )
    blamed = []
    for number, forged in enumerate(FORGED.values()):
        made = site.add(f"org.forges{number}", in_hook(GARBAGE.format(forged + b"\n")))
        place = f"{path}:{8 + 3 * number}:3: error: use 'use{number}'"
        blamed.append(f"{place}: {made.label}, hook pai_prerequisite: ")
    result = site.cli("plan", path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if ": error: " in line]
    for line, expected in zip(lines, blamed, strict=True):
        assert line.startswith(expected)


def test_an_answer_without_end_is_cut_off(site: Site, tmp_path: Path) -> None:
    forever = "import os\nwhile True:\n    for fd in range(3, 32):\n        try: os.write(fd, b'x' * 4096)\n"
    made = site.add("org.forges", in_hook(forever + "        except OSError: pass"))
    path = write_job(tmp_path, job(**uses("org.forges")))
    result = site.cli("plan", path)
    assert_blamed(result, path, made, "hook pai_prerequisite: returned too much data")


def test_a_contribution_has_a_largest_size(site: Site, tmp_path: Path) -> None:
    made = site.add("org.large", HOOK + f"    return Contribution({{'A': 'x' * {MOST_BYTES}}})\n")
    path = write_job(tmp_path, job(**uses("org.large")))
    assert_blamed(
        site.cli("plan", path), path, made, f"hook pai_prerequisite: contributes more than {MOST_BYTES}"
    )


def test_the_times_of_a_service_are_numbers_of_seconds(site: Site, tmp_path: Path) -> None:
    values = ["float('nan')", "float('inf')", "-1", "-0.5", "10**400", "True", "1e10"]
    wrong = [(name, value) for name in ("ready_within", "linger") for value in values]
    for number, (name, value) in enumerate(wrong):
        site.add(
            f"org.waits{number}",
            f"from pai_runtime.plugin import Service\n{HOOK}"
            f"    return Contribution(services=[Service('s', ':', {name}={value})])\n",
        )
    plugins = [f"org.waits{number}" for number in range(len(wrong))]
    result = site.cli("plan", write_job(tmp_path, job(**uses(*plugins))), "--json")
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr
    for line, (name, value) in zip(result.stderr.splitlines(), wrong, strict=True):
        assert f": Service.{name}: expected seconds from 0 to " in line, value


# What it is given

CHANGES = """
@hookimpl
def pai_prerequisite(use, task):
    seen = repr((use.name, use.parameters, use.roles, task.instances, task.ports, task.folder.name))
    use.parameters["list"].append("more")
    use.parameters["map"]["changed"] = "yes"
    use.parameters["changed"] = "yes"
    task.instances["worker"] = 99
    task.instances["more"] = 1
    task.ports.clear()
    for name in ("name", "roles", "source"):
        object.__setattr__(use, name, "x")
    for name in ("role", "folder", "gang"):
        object.__setattr__(task, name, "x")
    return Contribution({"SEEN_BY_" + str(task.index): seen})
"""


def test_a_hook_cannot_change_what_the_plan_and_the_others_are_given(site: Site, tmp_path: Path) -> None:
    site.add("org.changes", CHANGES)
    site.add("org.looks", CHANGES)
    document = job(**uses("org.changes", "org.looks"))
    document["prerequisites"][1]["parameters"] = {"list": [], "map": {}}
    document["prerequisites"][2]["parameters"] = {"list": [], "map": {}}
    document["taskRoles"]["worker"]["instances"] = 2
    result = site.cli("plan", write_job(tmp_path, document), "--json")
    assert result.returncode == 0, result.stderr
    plans = json.loads(result.stdout)["plans"]
    for plan in plans:
        assert plan["instances"] == {"worker": 2}
        assert sorted(plan["ports"]) == ["http", "ssh"]
        assert [use["parameters"] for use in plan["uses"]][:2] == [{"list": [], "map": {}}] * 2
        assert [use["name"] for use in plan["uses"]][:2] == ["use0", "use1"]
        assert [use["roles"] for use in plan["uses"]][:2] == [["worker"]] * 2
        seen = [each["value"] for each in plan["environment"] if each["name"].startswith("SEEN_BY_")]
        assert len(seen) == 1
        assert "{'list': [], 'map': {}}, ('worker',), {'worker': 2}, {" in seen[0]


# Which interpreter it is in

LOOKS = """
import sys
@hookimpl
def pai_prerequisite():
    process = open("/proc/self/comm").read()
    return Contribution({"SEEN": str([hasattr(sys, "by_pth"), hasattr(sys, "by_site"), process])})
@hookimpl
def pai_init():
    print(pai_prerequisite().environment)
"""

LOOKS_TOO = """
import sys
def add_arguments(parser):
    assert not hasattr(sys, "by_pth")
def main(args, output):
    return 7 if hasattr(sys, "by_pth") or hasattr(sys, "by_site") else 0
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The console script of an environment of its own, in which code runs as the interpreter starts."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60)
    (packages,) = environment.glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!a})\n")
    (packages / "refused.pth").write_text("import sys; sys.by_pth = True\n")
    (packages / "sitecustomize.py").write_text("import sys; sys.by_site = True\n")
    script, python = environment / "bin" / "pai-runtime", shlex.quote(str(environment / "bin" / "python"))
    script.write_text(
        f"#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n"  # as pip has it where a path has a space
        "import sys\nassert sys.by_pth\n"
        "from pai_runtime.console_script import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    return script


def call(
    script: Path, site: Site, *args: str | Path, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **site.environment()}
    return subprocess.run(
        [script, *args], env=environment, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_no_pth_file_is_run_where_plugins_are(site: Site, tmp_path: Path, installed: Path) -> None:
    command = {"name": "look", "module": "org_looks.look", "summary": "look"}
    site.add("org.looks", LOOKS, commands=[command], files={"{package}/look.py": LOOKS_TOO})
    path = write_job(tmp_path, job(**uses("org.looks")))
    planned = call(installed, site, "plan", path, "--json")
    assert planned.returncode == 0, planned.stderr
    (plan,) = json.loads(planned.stdout)["plans"]
    assert "[False, False, 'pai-runtime\\n']" in [each["value"] for each in plan["environment"]]
    ran = call(installed, site, "run", path, "--out", tmp_path / "run")
    assert ran.returncode == 0, ran.stderr
    assert "[False, False, " in (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    assert call(installed, site, "look").returncode == 0


def test_what_lies_beside_the_script_or_where_it_is_called_is_not_imported(
    site: Site, tmp_path: Path, installed: Path
) -> None:
    for folder in (installed.parent, tmp_path):
        for name in ("yaml", "jsonschema", "org_one"):
            (folder / f"{name}.py").write_text("raise SystemExit('impostor')\n")
    site.add("org.one")
    link = tmp_path / "link"
    link.symlink_to(installed)
    path = write_job(tmp_path, job(**uses("org.one")))
    for script in (installed, link):
        result = call(script, site, "plan", path, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "GREETED_BY_USE0" in result.stdout
