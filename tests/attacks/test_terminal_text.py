"""Text of a job, a plugin or a folder does nothing to the terminal that shows it, and hides nothing."""

import json
import os
import pty
import select
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_document.printable import printable
from tests.played_run import PlayedRun
from tests.plugin_factory import Site
from tests.plugin_factory import uses as plugin_uses
from tests.support import PROGRAM, callback, cli, job, write_job

pytestmark = pytest.mark.process

EVIL = (
    "\x1b[8m\x1b]0;x\x07\x1b[2J\x9b2J\x90q\x08\x7f\r\x0b\x0c\x1c\x85"  # controls
    "\u200e\u202e\u2066\u061c\u200b\u2028\u2029\u00ad\ufeff\ue000\U000e0041"  # directions, formats, breaks
    "\u00a0\u3164\ufe0f\u034f\u2800"  # letters, marks and spaces that no font shows
)
SEEN = "pwd -P "


def is_harmless(shown: str) -> bool:
    """Whether a terminal shows each line as it is."""
    return all(printable(line) == line for line in shown.split("\n"))


@given(st.text(st.characters(), max_size=50))
def test_only_what_is_seen_and_tabs_are_shown_as_they_are(text: str) -> None:
    shown = printable(text)
    assert shown.replace("\t", "").isprintable()
    assert not any(unicodedata.category(each) in ("Cf", "Co", "Cn", "Cs", "Zl", "Zp") for each in shown)
    assert printable(shown) == shown


def test_every_character_that_is_not_seen_has_an_escape_of_its_own() -> None:
    unseen = {each for each in EVIL if not each.isascii() or not each.isprintable()}
    shown = {printable(each) for each in unseen}
    assert len(shown) == len(unseen) > 25
    assert all(each.startswith("\\") and each.isascii() for each in shown)
    assert printable("größer\t日本 😀 e\u0301") == "größer\t日本 😀 e\u0301"


def evil_job(folder: Path, **fields: Any) -> Path:
    """A job that has the text wherever a job takes any text, also in names of files that messages show."""
    prerequisites = [
        {"name": "tool", "type": "script", "callbacks": [callback("taskStarts", SEEN + EVIL)], EVIL: EVIL}
    ]
    worker = {"prerequisites": ["tool"], "commands": [SEEN + EVIL + "\n# line\x0becho two"]}
    secrets = {"a" + EVIL: "x"}
    (folder / f"jobs{EVIL}\n").mkdir()
    document = job(prerequisites=prerequisites, worker=worker, secrets=secrets, description=EVIL, **fields)
    return write_job(folder / f"jobs{EVIL}\n", document)


def test_a_reviewer_of_a_plan_sees_all_of_a_command(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["rm -rf ~ \x1b[8m", "echo \u202efine\r"]}))
    lines = cli("plan", path, "--full").stdout.splitlines()
    assert r"    rm -rf ~ \x1b[8m" in lines
    assert r"    echo \u202efine\r"[:-2] in lines  # the white space around a command is not the shell's


@pytest.mark.parametrize("command", ["plan", "plan --full", "validate", "run"])
def test_the_texts_of_a_job_are_shown_and_do_nothing(tmp_path: Path, command: str) -> None:
    path = evil_job(tmp_path)
    more = ["--out", f"{tmp_path}/out{EVIL}\n"] if command == "run" else []
    ended = subprocess.run(
        [PROGRAM, *command.split(), str(path), *more], cwd=tmp_path, capture_output=True, check=False
    )
    own = ended.stderr if command == "run" else ended.stdout + ended.stderr
    lines = [line for line in own.decode().split("\n") if "command not found" not in line]
    assert all(map(is_harmless, lines))
    if command == "plan --full":
        assert any(line.startswith("    " + SEEN + r"\x1b[8m") for line in lines)


def test_a_text_cannot_add_a_line_to_a_plan(tmp_path: Path) -> None:
    forged = "\n  command  job.yaml:1:1\n    echo harmless"
    folder = tmp_path / f"x{forged}"
    folder.mkdir()
    path = write_job(folder, job(worker={"commands": ["rm -rf ~", "# a\x0becho b\x85echo c"]}))
    ended = cli("plan", path, "--full")
    assert ended.returncode == 0
    lines = ended.stdout.splitlines()
    assert "    echo harmless" not in lines
    assert sum(line.startswith("  command  ") for line in lines) == 1
    assert r"    # a\x0becho b\x85echo c" in lines


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_texts_of_a_plugin_are_shown_and_do_nothing(tmp_path: Path, form: list[str]) -> None:
    id_ = "com.example.evil"
    command = {"name": "evil", "module": "none", "summary": EVIL + "\nsecond"}
    parameters = {
        "type": "object",
        "properties": {"a" + EVIL: {"title": EVIL, "description": "first\nsecond" + EVIL}},
        "examples": [{EVIL: EVIL}],
    }
    code = f"raise ValueError({EVIL!r})"
    site = Site(tmp_path)
    visible = "\u202e\u200b\u3164"  # a manifest's summary must not have controls
    site.add(id_, code, version="1.0", summary=visible, parameters=parameters, commands=[command])
    site.add(
        "com.example.broken",
        distribution="broken" + EVIL.replace("\r", ""),
        files={"{package}/manifest.json": EVIL},
    )
    path = write_job(tmp_path, job(**plugin_uses(id_)))
    for args in (
        ["plugins", "list", *form],
        ["plugins", "show", id_],
        ["plugins", "check", id_],
        ["plugins", "check", "com.example.broken"],
        ["plugins", "digest", "none" + EVIL],
        ["plan", path, *form],
        ["plan", path, "--full"],
        ["validate", path, *form],
        ["run", path],
        ["evil"],
        ["--help"],
    ):
        ended = site.cli(*args, cwd=tmp_path)
        assert is_harmless(ended.stdout + ended.stderr), args
        assert "Traceback" not in ended.stderr
        if ended.stdout and "--json" in args:
            json.loads(ended.stdout)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_texts_in_a_folder_of_runs_are_shown_and_do_nothing(tmp_path: Path, form: list[str]) -> None:
    runs = tmp_path / f"runs{EVIL}\n"
    played = PlayedRun(runs / f"one{EVIL}\n", worker=2)
    played.all("running")
    played.output("worker/0", SEEN.encode() + EVIL.encode() + b"\n")
    task = runs / f"one{EVIL}\n" / "worker/0"
    (task / "variables.json").write_text(json.dumps({"A" + EVIL: {"value": EVIL + "\nB=1", "source": EVIL}}))
    state = {
        "phase": "held",
        "use": EVIL,
        "since": 1,
        "release": EVIL,
        "addresses": {EVIL: EVIL},
        "failedServices": {EVIL: EVIL},
    }
    (task / "state.json").write_text(json.dumps(state))
    broken = runs / "broken"
    broken.mkdir()
    (broken / "run.json").write_text(json.dumps({"job": EVIL}))
    run = runs / f"one{EVIL}\n"
    for folder in (runs, run, broken):
        ended = cli("ps", folder, *form, cwd=tmp_path)
        assert ended.returncode == 0
        assert is_harmless(ended.stdout + ended.stderr), folder
        if form:
            json.loads(ended.stdout)
    commands: list[list[str | Path]] = [
        ["variables", run, "worker/0"],
        ["variables", run, "worker" + EVIL],
        ["logs", broken],
        ["logs", run, "none" + EVIL],
    ]
    for args in commands:
        ended = cli(*args, cwd=tmp_path)
        assert is_harmless(ended.stdout + ended.stderr), args
    assert len(cli("variables", run, "worker/0").stdout.splitlines()) == 1


@pytest.mark.parametrize(
    "written",
    [b"", b"[]", b"{", b'{"A": 1}', b'{"A": {"value": 1}}', b"\xff", b"[" * 10**6],
    ids=lambda written: repr(written[:20]),  # pytest puts it into the environment
)
def test_what_a_task_wrote_for_its_variables_is_no_reason_to_break(tmp_path: Path, written: bytes) -> None:
    played = PlayedRun(tmp_path / "run", worker=1)
    played.all("running")
    played.output("worker/0", b"")
    (tmp_path / "run/worker/0/variables.json").write_bytes(written)
    ended = cli("variables", tmp_path / "run", "worker/0")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)


def test_arguments_are_shown_and_do_nothing() -> None:
    for args in (
        [EVIL],
        ["ps", "x", EVIL],
        ["plan", "x", "--task" + EVIL],
        ["run", "x", "--isolation", EVIL],
    ):
        ended = cli(*args)
        assert ended.returncode == 2
        assert is_harmless(ended.stderr), args


def on_a_terminal(*args: str | Path) -> str:
    """What a terminal of 80 columns is told."""
    primary, secondary = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, *args],
        stdin=subprocess.DEVNULL,
        stdout=secondary,
        stderr=secondary,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(secondary)
        told = b""
        while select.select([primary], [], [], 60)[0]:
            try:
                told += os.read(primary, 65536)
            except OSError:
                break
        process.wait()
    os.close(primary)
    return told.decode().replace("\r\n", "\n")


def test_a_live_run_shows_the_texts_of_a_job_and_does_what_it_does_itself(tmp_path: Path) -> None:
    told = on_a_terminal("run", evil_job(tmp_path), "--out", tmp_path / f"out{EVIL}\n")
    own = [line for line in told.split("\n") if line.startswith("pai-runtime: ")]
    assert own
    assert all(map(is_harmless, own))
    assert "\x1b[8m" not in told
    assert "\x1b]0;" not in told
    assert "\u202e" not in told


def test_ps_cuts_what_it_shows_on_a_terminal_to_its_columns(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path / f"run{EVIL}\n", worker=1)
    played.all("running")
    assert is_harmless(on_a_terminal("ps", tmp_path))


def test_what_a_task_has_written_is_printed_byte_for_byte(tmp_path: Path) -> None:
    played = PlayedRun(tmp_path, worker=1)
    played.output("worker/0", EVIL.encode() + b"\xff")
    ended = subprocess.run([PROGRAM, "logs", tmp_path], capture_output=True, check=False)
    assert ended.stdout == EVIL.encode() + b"\xff"


@pytest.mark.parametrize("breaks", ["{0}", "a{0}b", "{0}\n{0}"])
def test_a_problem_is_one_line(tmp_path: Path, breaks: str) -> None:
    text: Callable[..., str] = breaks.format
    ended = cli("validate", write_job(tmp_path, job(name=text(EVIL), worker={"dockerImage": text(EVIL)})))
    assert ended.returncode == 1
    assert is_harmless(ended.stderr)
    assert len(ended.stderr.splitlines()) == 3
