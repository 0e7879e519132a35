"""``pai-runtime validate`` as a person and as a program use it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.job_harness import validated
from tests.support import JOBS, PROGRAM, callback, cli, cli_each, job, write_job

pytestmark = pytest.mark.process

REFUSED = {
    "pre3_wrong": (28, 9, "no-such-prerequisite", "taskRoles.taskrole.prerequisites[0]", "justecho"),
    "marketplace_role": (10, 21, "no-such-definition", "taskRoles.taskrole.prerequisites[0]", None),
    "marketplace_require": (7, 15, "no-such-definition", "prerequisites[0].require[0]", None),
}
"""Line, column, code, field and suggestion of the one problem."""


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if ": error: " in line]


def test_every_job_of_the_specifications_is_accepted_or_refused_as_they_say() -> None:
    paths = sorted(JOBS.glob("*.yaml"))
    lines = [("validate", path, "--json") for path in paths]
    for path, ended in zip(paths, cli_each(*lines), strict=True):
        problems = json.loads(ended.stdout)["problems"]
        found = [problem for problem in problems if problem["severity"] == "error"]
        if path.stem in REFUSED:
            assert ended.returncode == 1
            (problem,) = found
            parts = ("line", "column", "code", "field", "suggestion")
            assert tuple(problem.get(part) for part in parts) == REFUSED[path.stem]
        else:
            assert (ended.returncode, found) == (0, [])


def test_every_job_of_the_specifications_is_in_their_list() -> None:
    listed = (JOBS / "README.md").read_text()
    assert all(f"`{path.name}`" in listed for path in JOBS.glob("*.yaml"))


def test_the_example_of_the_project_is_valid() -> None:
    assert cli("validate", JOBS.parents[1] / "examples" / "demo.yaml").returncode == 0


def test_a_near_miss_is_suggested(tmp_path: Path) -> None:
    document = job()
    document["taskroles"] = document.pop("taskRoles")
    ended = cli("validate", write_job(tmp_path, document))
    (error,) = errors(ended.stderr)
    assert error.startswith(f"{tmp_path}/job.yaml:8:1: error: taskroles: unknown field; known: ")
    assert error.endswith("; did you mean taskRoles?")
    assert ended.returncode == 1


FAULTY = """\
protocolVersion: 3
name: test
type: job
prerequisites:
- {name: image, type: dockerimage, uri: x}
- name: hello
  callbacks:
  - {event: taskStart, commands: [echo <% $parameters.x %>]}
taskRoles:
  worker:
    dockerImage: imag
    prerequisites: [hello]
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}
    commands: [true]
"""


def test_as_json_every_problem_is_given_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    path = write_job(tmp_path, FAULTY)
    ended = cli("validate", path, "--json")
    document = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr, document["valid"]) == (1, "", False)
    problems = document["problems"]
    assert [(each["line"], each["column"]) for each in problems] == [
        (1, 18),
        (8, 13),
        (8, 40),
        (11, 18),
        (14, 16),
    ]
    assert problems[3] == {
        "code": "no-such-prerequisite",
        "severity": "error",
        "file": str(path),
        "line": 11,
        "column": 18,
        "field": "taskRoles.worker.dockerImage",
        "message": "no prerequisite of type dockerimage is named 'imag'; known: image",
        "found": "'imag'",
        "suggestion": "image",
    }
    codes = [each["code"] for each in problems]
    assert codes[:3] == ["wrong-value", "wrong-value", "reference-to-nothing"]
    assert codes[4] == "wrong-type"
    assert problems[1]["suggestion"] == "taskStarts"


def test_as_text_and_as_json_the_problems_are_the_same(tmp_path: Path) -> None:
    path = write_job(tmp_path, FAULTY)
    lines = cli("validate", path).stderr.splitlines()
    problems = json.loads(cli("validate", path, "--json").stdout)["problems"]
    assert lines[-1] == f"{path} is invalid: 5 errors"
    for line, problem in zip(lines[:-1], problems, strict=True):
        assert line.startswith(f"{path}:{problem['line']}:{problem['column']}: {problem['severity']}: ")
        assert all(str(problem[part]) in line for part in ("field", "message", "found") if part in problem)


def test_as_json_a_valid_job_has_no_errors(tmp_path: Path) -> None:
    ended = cli("validate", write_job(tmp_path, job()), "--json")
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"valid": True, "problems": []})


def test_a_plugin_that_this_machine_lacks_is_a_warning(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(extras={"com.microsoft.pai.runtimeplugin": [{"plugin": "debugger"}]}))
    ended = cli("validate", path)
    assert ended.returncode == 0
    assert ": warning: use 'debugger': plugin com.microsoft.pai.runtimeplugin.debugger is not" in ended.stderr
    (problem,) = json.loads(cli("validate", path, "--json").stdout)["problems"]
    assert problem["severity"] == "warning"


@pytest.mark.parametrize(
    ("plugin", "policy", "severity", "meant"),
    [
        ("cmmd", "fail", "error", "com.microsoft.pai.runtimeplugin.cmd"),
        ("gti", "fail", "error", "com.microsoft.pai.runtimeplugin.git"),
        ("com.microsoft.pai.runtimeplugins.cmd", "fail", "error", "com.microsoft.pai.runtimeplugin.cmd"),
        ("cmmd", "ignore", "warning", "com.microsoft.pai.runtimeplugin.cmd"),
        ("org.example.cmd", "fail", "warning", "com.microsoft.pai.runtimeplugin.cmd"),
        ("debugger", "fail", "warning", None),
    ],
)
def test_a_misspelt_plugin_is_an_error_and_one_of_others_is_not(
    tmp_path: Path, plugin: str, policy: str, severity: str, meant: str | None
) -> None:
    use = {"plugin": plugin, "failurePolicy": policy}
    (problem,) = validated(write_job(tmp_path, job(extras={"com.microsoft.pai.runtimeplugin": [use]})))
    assert (problem.code, problem.severity, problem.suggestion) == ("no-such-plugin", severity, meant)


def test_in_strict_mode_a_warning_is_an_error(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(extras={"com.microsoft.pai.runtimeplugin": [{"plugin": "none"}]}))
    lenient, strict, as_json = cli_each(
        ("validate", path), ("validate", path, "--strict"), ("validate", path, "--strict", "--json")
    )
    assert (lenient.returncode, errors(lenient.stderr)) == (0, [])
    assert (strict.returncode, len(errors(strict.stderr))) == (1, 1)
    document = json.loads(as_json.stdout)
    severities = [problem["severity"] for problem in document["problems"]]
    assert (as_json.returncode, document["valid"], severities) == (1, False, ["error"])


# Several files


def test_each_of_several_jobs_is_judged_by_itself(tmp_path: Path) -> None:
    valid, faulty = write_job(tmp_path, job()), write_job(tmp_path, FAULTY, "faulty.yaml")
    none, folder = tmp_path / "none.yaml", tmp_path
    paths = [none, valid, faulty, folder, valid]
    text, as_json, both_valid = cli_each(
        ("validate", *paths), ("validate", "--json", *paths), ("validate", valid, valid)
    )
    assert text.returncode == as_json.returncode == 1
    assert text.stdout == f"{valid} is valid\n" * 2
    verdicts = [line for line in text.stderr.splitlines() if " is invalid: " in line]
    assert verdicts == [
        f"{none} is invalid: 1 error",
        f"{faulty} is invalid: 5 errors",
        f"{folder} is invalid: 1 error",
    ]
    document = json.loads(as_json.stdout)
    assert (document["valid"], as_json.stderr) == (False, "")
    found = [(each["file"], each["valid"], len(each["problems"])) for each in document["jobs"]]
    assert found == list(
        zip(map(str, paths), [False, True, False, False, True], [1, 0, 5, 1, 0], strict=True)
    )
    assert (both_valid.returncode, both_valid.stdout) == (0, f"{valid} is valid\n" * 2)


def test_the_problems_of_one_job_are_the_same_among_several(tmp_path: Path) -> None:
    faulty, valid = write_job(tmp_path, FAULTY), write_job(tmp_path, job(), "valid.yaml")
    one, several = (
        json.loads(each.stdout)
        for each in cli_each(("validate", "--json", faulty), ("validate", "--json", valid, faulty))
    )
    assert several["jobs"] == [
        {"file": str(valid), "valid": True, "problems": []},
        {"file": str(faulty), **one},
    ]


# Secrets

_SECRET = "hunter2"


SECRETS = [
    f"{_SECRET}",
    f"[{_SECRET}]",
    f"{{token: {_SECRET}, token: {_SECRET}}}",
    f"{{token: !{_SECRET} x}}",
    f"{{token: *{_SECRET}}}",
    f"{{token: !!int {_SECRET}}}",
    f"{{token: {{<<: {_SECRET}}}}}",
    f'{{token: "{_SECRET}\\0"}}',
    f'{{token: "{_SECRET}\x07"}}',
    f"{{token: [{_SECRET}}}",
    f"{{token: {{? [{_SECRET}] : x}}}}",
    f"!{_SECRET} {{}}",
]


def test_no_secret_is_shown_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    path = write_job(tmp_path, job())
    lines: list[tuple[str | Path, ...]] = []
    for number, secrets in enumerate(SECRETS):
        own = tmp_path / f"job-{number}.yaml"
        own.write_text(path.read_text() + f"secrets: {secrets}\n")
        given = tmp_path / f"secrets-{number}.yaml"
        given.write_text(secrets + "\n")
        for line in (("validate", own), ("validate", path, "--secrets", given)):
            lines += [line, (*line, "--json")]
    for ended in cli_each(*lines):
        assert ended.returncode == 1
        assert "error" in ended.stdout + ended.stderr
        assert _SECRET not in ended.stdout + ended.stderr


USING: list[dict[str, Any]] = [
    {"name": "<% $secrets.token %>"},
    {"secret": {"token": _SECRET}},
    {
        "worker": {
            "commands": ["<% $secrets.token.x %> <% $secrets.list[5] %> <% $secrets %> <% $secrets.tok %>"]
        }
    },
    {"prerequisites": [{"name": "p", "type": "dockerimage", "uri": "x", "auth": {"password": [_SECRET]}}]},
    {"prerequisites": [{"name": "p", "type": "dockerimage", "uri": "x", "auth": {"pasword": _SECRET}}]},
    {"prerequisites": [{"name": "p", "type": "dockerimage", "uri": "x", "auth": _SECRET}]},
    {
        "prerequisites": [{"name": "p", "callbacks": [callback("<% $secrets.token %>", "true")], "z": 1}],
        "worker": {"prerequisites": ["p"], "instances": 0},
    },
    {
        "prerequisites": [{"name": "p", "callbacks": "<% $secrets.token %>"}],
        "worker": {"prerequisites": ["p"]},
    },
    {
        "prerequisites": [{"name": "p", "plugin": "cmd", "preCommands": {"<% $secrets.token %>": 1}}],
        "worker": {"prerequisites": ["p"]},
    },
    {
        "prerequisites": [{"name": "p", "plugin": "cmd", "preCommands": "<% $secrets.map %>"}],
        "worker": {"prerequisites": ["p"]},
    },
]


def test_no_secret_is_shown_whatever_is_wrong_where_it_is_used(tmp_path: Path) -> None:
    secrets = {"token": _SECRET, "list": [_SECRET], "map": {"a": _SECRET}}
    lines: list[tuple[str | Path, ...]] = []
    for number, fields in enumerate(USING):
        document = job(**fields, jobRetryCount=-1, secrets=secrets)
        path = write_job(tmp_path, document, f"job-{number}.yaml")
        lines += [("validate", path), ("validate", path, "--json")]
    for ended in cli_each(*lines):
        assert ended.returncode == 1
        assert _SECRET not in ended.stdout + ended.stderr
        assert "\0" not in ended.stdout + ended.stderr
        assert "\\u0000" not in ended.stdout


# What is no job


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", " error: the file is empty"),
        (b"hello\n", "1:1: error: expected a job: a mapping that starts with protocolVersion: 2"),
        (b"- a\n", "1:1: error: expected a job: a mapping that starts with protocolVersion: 2"),
        (b"---\n", "2:1: error: expected a job: a mapping that starts with protocolVersion: 2"),
        (b"a: [\n", "1:4: error: '[' is not closed; expected ',' or ']' at 2:1"),
        (b"a: \xff\n", "1:4: error: invalid UTF-8: byte 0xff"),
        (b"[" * 100_000, "1:101: error: nested deeper than 100 levels"),
    ],
)
def test_what_is_no_job_is_refused_with_its_place(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    ended = cli("validate", path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"{path}:{expected}\n{path} is invalid: 1 error\n"


def test_a_job_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ended = cli("validate", tmp_path / "none.yaml")
    assert (ended.returncode, errors(ended.stderr)) == (
        1,
        [f"{tmp_path}/none.yaml: error: cannot be read: No such file or directory"],
    )


def test_a_secrets_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text("- a\n")
    ended = cli("validate", write_job(tmp_path, job()), "--secrets", secrets)
    assert errors(ended.stderr) == [
        f"{secrets}:1:1: error: expected a mapping from names of secrets to their values"
    ]


def test_a_secrets_file_gives_what_the_job_refers_to(tmp_path: Path) -> None:
    path = write_job(tmp_path, job(worker={"commands": ["<% $secrets.token %>"]}))
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text("token: x\n")
    assert cli("validate", path).returncode == 1
    assert cli("validate", path, "--secrets", secrets).returncode == 0


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert errors(cli("validate", tmp_path / "fifo").stderr) == [f"{tmp_path}/fifo: error: the file is empty"]


def test_a_job_can_come_from_a_pipe() -> None:
    source = (JOBS / "pre1.yaml").read_bytes()
    ended = subprocess.run(
        [PROGRAM, "validate", "/dev/stdin"], input=source, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, b"/dev/stdin is valid\n")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_any_name_is_shown_as_text_that_does_nothing_to_a_terminal(
    tmp_path: Path, encoding: str, form: list[str]
) -> None:
    strange = "\x1b]0;x\x07\x9b31m\u202e\u2028\r\né😀"
    fields = {"name": strange, strange: 1, "worker": {"prerequisites": [strange], "dockerImage": strange}}
    path = write_job(tmp_path, job(**fields))
    ended = cli("validate", path, *form, env={"PYTHONIOENCODING": encoding})
    shown = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert "Traceback" not in shown
    assert all(line.isprintable() for line in shown.splitlines())
    if form:
        fields_shown = {problem.get("field") for problem in json.loads(ended.stdout)["problems"]}
        assert strange in fields_shown
    else:
        assert len(shown.splitlines()) == 5


def test_a_policy_that_cannot_be_used_is_status_2(tmp_path: Path) -> None:
    path = write_job(tmp_path, job())
    assert cli("validate", path, "--policy", tmp_path / "none").returncode == 2
    assert cli("validate", path, env={"PAI_RUNTIME_POLICY": ""}).returncode == 2
