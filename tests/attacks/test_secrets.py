"""Attacks on promise 3: no secret value is in a log, a message, a record or a file of the runtime."""

import json
import os
import random
import shlex
import subprocess
import sys
import textwrap
from base64 import b64encode
from functools import cache
from pathlib import Path

import pytest

from pai_document.problems import InvalidInput, Position
from pai_document.secret_names import names_secret
from pai_runtime.engines.code import find_code
from pai_task.masking import Masks
from pai_task.placeholders import placeholder
from tests.job_harness import load_file
from tests.plugin_factory import Site, uses
from tests.support import callback, cli, job, write_job
from tests.task_harness import plan, run_task, shell

_RANDOM = random.Random(11)  # noqa: S311 - the same keys each time
_BODY = "".join(_RANDOM.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=920))
PEM = "\n".join(
    [
        "-----BEGIN PRIVATE KEY-----",
        *(_BODY[start : start + 64] for start in range(0, len(_BODY), 64)),
        "-----END PRIVATE KEY-----\n",
    ]
)
PASSWORD = 'it\'s <b>a</b> "pass", w\u00f6rd: #$HOME/`id` 100% & ~back\\slash\u20ac|'
LONG = "".join(_RANDOM.choices([chr(code) for code in range(33, 127)], k=3000)).strip()

_PYTHON = shlex.quote(sys.executable)
_PYTHON += ' -c \'import base64, html, json, os, urllib.parse as u; v = os.environ["V"]; '
SHOWN = [
    'printf %s "$V"',
    'printf %s "$V" | sed "s/^/        /"',
    'printf %s "$V" | sed "s/$/ |/"',
    'printf %s "$V" | fold -w 7',
    'printf %s "$V" | tr "\\n" " "',
    "set -f; echo $V",
    'printf %s "$V" | base64',
    'printf "%s\\n" "$V" | base64 -w 0',
    'printf "user:%s" "$V" | base64 -w 33',
    'printf %s "$V" | od -An -v -tx1',
    'printf %s "$V" | od -An -v -tx1 | tr -d " \\n"',
    'printf %s "$V" | od -An -v -tx1 | tr a-f A-F',
    "declare -p V",
    "export -p",
    'set | sed -n "/^V=/,\\$ p"',
    'printf %q "$V"',
    'echo "${V@Q}"',
    'set -x; : "$V"',
    _PYTHON + "print(json.dumps(v))'",
    _PYTHON + "print(json.dumps([v], ensure_ascii=False))'",
    _PYTHON + "print([v])'",
    _PYTHON + "print(ascii(v))'",
    _PYTHON + "print([v.encode()])'",
    _PYTHON + "print(repr(v + chr(34) + chr(39)))'",
    _PYTHON + "print(html.escape(v))'",
    _PYTHON + "print(html.escape(v, quote=False))'",
    _PYTHON + "print(u.quote(v, safe=str()))'",
    _PYTHON + "print(u.quote(v))' | sed 's/%../\\L&/g'",
    _PYTHON + "print(u.quote_plus(v))'",
    _PYTHON + "print(v.encode().hex().upper())'",
    _PYTHON + 'print(base64.urlsafe_b64encode(b"x" + v.encode()))\'',
    "dash -c 'export -p'",
    "dash -xc ': \"$V\"'",
]


def shown(command: str, value: str, **more: str) -> str:
    """What a command prints that shows the variable V."""
    ended = subprocess.run(
        ["bash", "-c", f"{{ {command}; }} 2>&1"],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **more, "V": value},
        capture_output=True,
        check=True,
    )
    return ended.stdout.decode("utf-8", "surrogateescape")


@cache
def shown_without(command: str, locale: str) -> str:
    """What it prints of a value that is no secret."""
    return shown(command, "", LC_ALL=locale) + shown(command, "\n", LC_ALL=locale)


@cache
def masks(value: str) -> Masks:
    return Masks([value])


def traces(text: str) -> set[str]:
    """Every run of so many characters that it does not occur by chance."""
    text = text.replace("\n", "")
    runs = {text[start : start + 10] for start in range(len(text) - 9)}
    return {run for run in runs if run.strip()}


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=pytest.mark.needs("dash")) if "dash" in each else each for each in SHOWN],
)
def test_nothing_of_a_secret_is_left_in_any_form_that_a_tool_prints(command: str) -> None:
    """That with letters beyond ASCII in both locales, which are nothing to the others."""
    for value, locale in ((PASSWORD, "C"), (PASSWORD, "C.UTF-8"), (PEM, "C"), (LONG, "C.UTF-8")):
        text = shown(command, value, LC_ALL=locale)
        masked = masks(value).mask(text)
        assert masked != text, (value, locale)
        assert not traces(masked) & traces(text) - traces(shown_without(command, locale)), (value, locale)


@pytest.mark.parametrize("line", [0, 1, 7, -3, -2])
def test_each_line_of_a_secret_is_masked_alone(line: int) -> None:
    text = PEM.splitlines()[line]
    for value in (PEM, PEM.replace("\n", "\r\n"), "\n" + PEM):
        assert Masks([value]).mask(f"<{text}>") == "<******>"


@pytest.mark.parametrize("text", ["ab\ncd\nef", "ab cd ef", "ab\\ncd\\nef", "ab%0Acd%0Aef"])
def test_a_secret_of_short_lines_is_masked_as_a_whole(text: str) -> None:
    assert "cd" not in Masks(["ab\ncd\nef\n"]).mask(text)


def test_what_is_left_of_two_secrets_that_overlap_is_nothing() -> None:
    assert Masks(["abcdefgh", "efghijkl"]).mask("<abcdefghijkl>") == "<******>"


def test_a_large_secret_is_masked_whole_and_in_part() -> None:
    value = "".join(_RANDOM.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=200_000))
    masks = Masks([value])
    assert masks.mask(f"<{value}>") == "<******>"
    assert not traces(masks.mask(value[5_000:9_000])) & traces(value[5_300:8_700])


@pytest.mark.process
def test_a_task_leaves_no_secret_in_its_folder(tmp_path: Path) -> None:
    commands = [command for command in SHOWN if "dash" not in command and "sed" not in command]
    script = "\n".join(f"( {command} )" for command in commands)
    task = plan(tmp_path, script, environment={"V": placeholder("v"), "LC_ALL": "C.UTF-8"})
    run = run_task(task, secrets={"v": PEM})
    assert run.process.returncode == 0, run.stderr
    lines = {line for line in PEM.splitlines() if len(line) >= 8}
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        text = path.read_bytes().decode("utf-8", "replace").replace("\n", "")
        for line in lines:
            for form in (line, line.encode().hex(), json.dumps(line)[1:-1]):
                assert form not in text, path


def holders(folder: Path, value: str) -> list[Path]:
    """The files below a folder that hold a value."""
    return [path for path in folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]


RAISES = """
@hookimpl
def pai_prerequisite(use, task):
    raise ValueError("cannot use %r" % dict(use.parameters))
"""
WARNS = """
@hookimpl
def pai_prerequisite(use, task):
    return Contribution(warnings=["cannot use %r" % dict(use.parameters)])
"""


SECRET_FIELDS = [
    "token",
    "TOKEN",
    "apiKey",
    "API_KEY",
    "apikeys",
    "access_token_2",
    "accessToken",
    "dbPassword",
    "passwd",
    "pwd",
    "client-secret",
    "credentials",
    "httpAuth",
    "SSHKey",
    "passphrase",
]
OTHER_FIELDS = ["tokenizer", "author", "passes", "keyboard", "secretary"]


@pytest.mark.process
@pytest.mark.parametrize("plugin", ["org.strict", "org.nested", "org.raises", "org.warns"])
def test_no_message_shows_the_value_of_a_field_that_names_a_secret(plugin: str, tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.strict", parameters={"type": "object", "additionalProperties": {"const": 1}})
    nested = {"items": {"const": 1}, "additionalProperties": {"const": 1}}
    site.add("org.nested", parameters={"type": "object", "additionalProperties": nested})
    site.add("org.raises", RAISES)
    site.add("org.warns", WARNS)
    values: list[object] = ["sesame-open", ["sesame-open"], {"value": "sesame-open"}]
    fields = {field: values[number % 3] for number, field in enumerate(SECRET_FIELDS)}
    others = dict.fromkeys(OTHER_FIELDS, ["shown-value"] if plugin == "org.nested" else "shown-value")
    path = write_job(tmp_path, job(**uses(plugin, **fields, **others)))
    for args in (["validate"], ["validate", "--json"], ["run", "--out", "out"]):
        done = site.cli(args[0], path, *args[1:], cwd=tmp_path)
        assert "sesame" not in done.stderr + done.stdout
        assert (done.stderr + done.stdout).count("shown-value") >= len(OTHER_FIELDS)


@pytest.mark.parametrize("field", SECRET_FIELDS)
def test_a_field_that_names_a_secret_is_known_by_its_words(field: str) -> None:
    assert names_secret(field)


@pytest.mark.parametrize("field", OTHER_FIELDS)
def test_a_field_that_has_only_letters_in_common_is_shown(field: str) -> None:
    assert not names_secret(field)


@pytest.mark.process
def test_no_message_shows_the_value_of_a_secret_that_stands_elsewhere_too(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("org.strict", parameters={"type": "object", "additionalProperties": {"const": 1}})
    site.add("org.raises", RAISES)
    value = "sesame-open-" * 8
    (tmp_path / "secrets.yaml").write_text(f"deep: [{{pin: {value}}}]")
    for plugin in ("org.strict", "org.raises"):
        path = write_job(tmp_path, job(**uses(plugin, note=f"it is {value}!")))
        done = site.cli("validate", path, "--secrets", tmp_path / "secrets.yaml")
        assert done.returncode == 1
        assert "sesame" not in done.stderr
        assert "it is ******" in done.stderr


_KEY = "sesame-open-4711"


CODE = {
    "plain": (_KEY, f'KEY = "{_KEY}"\n'),
    "far": (_KEY, "\0" * (1024**2 - 5) + _KEY),  # across the parts that are read
    "base64": (_KEY, b64encode(f"user:{_KEY}".encode()).decode()),
    "pem": (PEM, PEM),
    "indented": (PEM, textwrap.indent(PEM, "    ")),
}
OTHER_CODE = {
    "begun": (_KEY, f'KEY = "{_KEY[:-1]}"\n'),
    "heading": (PEM, "-----BEGIN PRIVATE KEY-----\n"),
    "word": ("localhost", "localhost"),
    "short": ("5432", "5432"),
}


@pytest.mark.parametrize("kind", CODE)
def test_code_that_contains_a_secret_of_its_job_is_refused(kind: str, tmp_path: Path) -> None:
    value, content = CODE[kind]
    path = write_job(tmp_path, job(extras={"code": "."}, secrets={"other": "x" * 9, "deep": {"pin": value}}))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/settings.py").write_text(content)
    document, _ = load_file(path)
    with pytest.raises(InvalidInput) as raised:
        find_code(document, None, [path])
    (problem,) = raised.value.problems
    assert (problem.code, problem.position) == (
        "secret-in-code",
        Position(str(tmp_path / "sub/settings.py")),
    )
    assert "'deep.pin'" in problem.message
    assert not traces(str(problem)) & traces(value)
    (tmp_path / ".paiignore").write_text("/sub/settings.py\n")
    assert find_code(document, None, [path])


@pytest.mark.parametrize("kind", OTHER_CODE)
def test_code_that_contains_what_occurs_by_chance_is_taken(kind: str, tmp_path: Path) -> None:
    value, content = OTHER_CODE[kind]
    path = write_job(tmp_path, job(extras={"code": "."}, secrets={"pin": value}))
    (tmp_path / "settings.py").write_text(content)
    assert find_code(load_file(path)[0], None, [path])


@pytest.mark.process
def test_secrets_that_are_too_large_to_be_hidden_are_refused(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["echo <% $secrets.a %>"]}))
    (tmp_path / "secrets.yaml").write_text(f"a: {'x' * 200_000}\nb: {'y' * 100_000}")
    done = cli("run", path, "--secrets", tmp_path / "secrets.yaml", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "secrets.yaml: error: secrets: " in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@pytest.mark.parametrize(
    "script",
    [
        "export $TOK=1",
        "export OTHER=$TOK",
        "export $TOK=$TOK; false",
        'echo "$TOK=1" >> $PAI_ENV',
        'echo "$TOK" >> $PAI_ENV',
        'printf "%s<<%s" A$TOK "$TOK" >> $PAI_ENV',
        "exec env A$TOK=1 true",
        "export PATH=/$TOK",
        "cd /$TOK",
    ],
)
def test_a_step_that_names_something_by_a_secret_leaves_it_nowhere(script: str, tmp_path: Path) -> None:
    steps = [shell("taskStarts", 0, script, "ignore"), shell("taskExits", 1, "env")]
    run = run_task(plan(tmp_path, "env", steps, {"TOK": placeholder("t")}), secrets={"t": "sesame_open"})
    assert not holders(tmp_path, "sesame")
    assert b"sesame" not in (run.stdout + run.stderr)
    json.loads((tmp_path / "variables.json").read_text())


@pytest.mark.process
def test_a_task_without_a_shell_does_not_show_the_path_that_a_secret_is_in(tmp_path: Path) -> None:
    run = run_task(plan(tmp_path, environment={"PATH": placeholder("p")}), secrets={"p": "/sesame_open"})
    assert run.process.returncode != 0
    assert not holders(tmp_path, "sesame")
    assert b"sesame" not in (run.stdout + run.stderr)


@pytest.mark.process
def test_the_keys_of_who_runs_a_job_stay_outside_of_its_tasks(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["env", "cat -v /proc/$PPID/environ || :"]}))
    done = cli("run", path, "--out", tmp_path / "run", env={"WANDB_API_KEY": "sesame-open"})
    assert done.returncode == 0
    assert "sesame" not in done.stdout + done.stderr
    assert not holders(tmp_path / "run", "sesame")


@pytest.mark.process
@pytest.mark.parametrize("command", ["env", "export COPY=$WANDB_API_KEY", 'base64 <<<"$WANDB_API_KEY"'])
def test_a_key_that_is_asked_for_is_in_no_log_and_no_file(command: str, tmp_path: Path) -> None:
    step = {"name": "step", "callbacks": [callback("taskStarts", command)]}
    document = job(
        prerequisites=[step],
        worker={"commands": [command, "env"], "prerequisites": ["step"]},
        extras={"environment": ["WANDB_API_KEY"]},
    )
    path = write_job(tmp_path, document)
    done = cli("run", path, "--out", tmp_path / "run", env={"WANDB_API_KEY": "sesame-open"})
    assert done.returncode == 0
    assert "WANDB_API_KEY=******" in done.stdout
    for form in ("sesame", "c2VzYW1lLW9wZW"):
        assert form not in done.stdout + done.stderr
        assert not holders(tmp_path / "run", form)


@pytest.mark.process
def test_of_what_comes_from_outside_no_value_is_kept(tmp_path: Path) -> None:
    path = write_job(tmp_path, job())
    run = tmp_path / "run"
    done = cli("run", path, "--out", run, "--env", "MY_THING", env={"MY_THING": "sesame-open"})
    assert done.returncode == 0
    assert not holders(run, "sesame")
    shown = cli("variables", run, "worker/0")
    assert "sesame" not in shown.stdout
    assert any("MY_THING" in line and line.startswith("image") for line in shown.stdout.splitlines())
