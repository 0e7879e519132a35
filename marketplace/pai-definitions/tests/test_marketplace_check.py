"""`pai-runtime marketplace check`: what is wrong with definition files, for their authors."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_definitions.sources import EMBEDDED_FOLDER
from pai_runtime import cli as command_line
from pai_task.exit_codes import CANNOT_RUN


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PAI_RUNTIME_POLICY", raising=False)


def check(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, Any]:
    """The exit status, and the JSON that it prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pai-runtime", "marketplace", "check", *args, "--json"])
        status = command_line.main()
    return status, json.loads(capsys.readouterr().out)


def definition(name: str, command: str = "true", **fields: Any) -> dict[str, Any]:
    parameters = {"callbacks": [{"event": "taskStarts", "commands": [command]}]}
    return {"name": name, "plugin": "cmd", "plugin_params": parameters, **fields}


def write(file: str, *definitions: dict[str, Any] | str) -> None:
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [
        each if isinstance(each, str) else yaml.safe_dump([each], sort_keys=False) for each in definitions
    ]
    path.write_text("".join(texts), "utf-8")


def found(document: Any) -> list[tuple[str, int, str]]:
    """File, line and code of each problem."""
    return [(each["file"], each["line"], each["code"]) for each in document["problems"]]


def test_sound_definitions_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    write("defs/a.yaml", definition("a", require=["b"]), definition("c", require=["./sub/b.yml"]))
    write("defs/sub/b.yml", definition("b", version="1"), definition("b", version="2", require=["./b.yml#d"]))
    write("defs/sub/b.yml", definition("b"))
    status, document = check(capsys, "defs")
    assert (status, document) == (0, {"valid": True, "problems": [], "files": 2, "definitions": 3})


def test_every_problem_of_every_file_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    write("defs/1.yaml", "- name: [\n")
    write("defs/2.yaml", "- name: two\n  plugn: cmd\n  version: [1]\n")
    write(
        "defs/3.yaml",
        "- name: three\n  plugin: cmd\n  plugin_params: {callbacks: no}\n  require: [nothing]\n",
    )
    status, document = check(capsys, "defs")
    assert status == 1
    assert found(document)[1:] == [
        ("defs/2.yaml", 3, "wrong-type"),
        ("defs/3.yaml", 3, "wrong-type"),
        ("defs/3.yaml", 4, "no-such-definition"),
    ]
    assert found(document)[0][0] == "defs/1.yaml"


def test_a_problem_of_what_others_require_is_told_once_and_where_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("defs/a.yaml", definition("a", require=["c"]), definition("b", require=["c"]))
    write("defs/c.yaml", definition("c", require=["d"]))
    _, document = check(capsys, "defs")
    (problem,) = document["problems"]
    assert (problem["file"], problem["code"]) == ("defs/c.yaml", "no-such-definition")
    assert "requiredBy" not in problem


def test_a_field_that_looks_misspelt_is_a_warning_and_one_of_a_plugin_is_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("a.yaml", definition("a", plugn="cmd", sumary="", path="/data"))
    status, document = check(capsys, "a.yaml")
    told = [(each["code"], each["field"], each["suggestion"]) for each in document["problems"]]
    assert status == 0
    assert told == [
        ("unknown-field", "[0].plugn", "plugin"),
        ("unknown-field", "[0].sumary", "summary"),
    ]
    assert check(capsys, "a.yaml", "--strict")[0] == 1


def test_two_of_one_name_type_and_version_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    write("defs/1.yaml", definition("a", version="1"))
    write("defs/2.yaml", definition("a", version="2"), definition("a", type="data"))
    assert check(capsys, "defs")[0] == 0
    write("defs/3.yaml", definition("a", version="2"))
    status, document = check(capsys, "defs")
    assert status == 1
    assert found(document) == [("defs/3.yaml", 1, "duplicate-name")]
    assert "defs/2.yaml:1" in document["problems"][0]["message"]


@pytest.mark.parametrize(
    ("fields", "code", "severity"),
    [
        ({"template_variables": ["unused"]}, "unused-variable", "warning"),
        ({"command": "echo {{ nothing }}"}, "wrong-template", "error"),
        ({"require": ["other"]}, "missing-variable", "error"),
        ({"require": [{"name": "other", "template_variables": {"x": 1}}]}, "wrong-variable", "error"),
        (
            {"require": [{"name": "other", "template_variables": {"x": [], "y": 1}}]},
            "unknown-variable",
            "error",
        ),
        ({"plugin": "cmdd"}, "no-such-plugin", "error"),
        ({"plugin": "org.example.other"}, "no-such-plugin", "warning"),
        ({"plugin_params": {"callbacks": 3}}, "wrong-type", "error"),
        ({"require": ["this"]}, "circle", "error"),
    ],
)
def test_what_a_job_would_find_wrong_is_found(
    capsys: pytest.CaptureFixture[str], fields: dict[str, Any], code: str, severity: str
) -> None:
    other = definition("other", "ls {{ x }}", template_variables=[{"name": "x", "type": "list"}])
    other["plugin_params"]["callbacks"][0]["commands"] = ["ls {{ x | length }}"]
    write("a.yaml", {**definition("this", fields.pop("command", "true")), **fields}, other)
    status, document = check(capsys, "a.yaml")
    assert [(each["code"], each["severity"]) for each in document["problems"]] == [(code, severity)]
    assert document["problems"][0]["file"] == "a.yaml"
    assert status == (severity == "error")
    assert check(capsys, "a.yaml", "--strict")[0] == 1


def test_a_value_that_is_made_up_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    parameters = "{name: a, mountPath: {{ at }}, readOnly: {{ ro }}}"
    storage = f"- name: share\n  plugin: pvc_storage\n  plugin_params: {parameters}\n"
    write("given.yaml", f"{storage}  template_variables: [at, ro]\n")
    assert check(capsys, "given.yaml")[0] == 0
    write("wrong.yaml", f"{storage}  template_variables: [at, {{name: ro, default: maybe}}]\n")
    status, document = check(capsys, "wrong.yaml")
    assert (status, found(document)) == (1, [("wrong.yaml", 3, "wrong-type")])


def test_what_is_required_may_be_in_a_configured_source(capsys: pytest.CaptureFixture[str]) -> None:
    write("team/b.yaml", definition("b"))
    write("a.yaml", definition("a", require=["b", "debug_hook"]))
    assert check(capsys, "a.yaml")[0] == 1
    write(
        "config/pai-runtime/marketplace.yaml",
        f"sources: [{{name: team, folder: {Path('team').absolute()}}}]\n",
    )
    assert check(capsys, "a.yaml")[0] == 0


def test_the_definitions_of_the_runtime_are_sound(capsys: pytest.CaptureFixture[str]) -> None:
    status, document = check(capsys, str(EMBEDDED_FOLDER), "--strict")
    assert (status, document["problems"]) == (0, [])


def test_many_definitions_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    write("defs/a.yaml", *(definition(f"a{number}") for number in range(200)))
    assert check(capsys, "defs")[1]["definitions"] == 200


def test_a_definition_may_say_the_version_of_the_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    write("defs/a.yaml", yaml.safe_dump({"protocolVersion": 2, **definition("a", type="data")}))
    assert check(capsys, "defs") == (0, {"valid": True, "problems": [], "files": 1, "definitions": 1})


@pytest.mark.parametrize("path", ["nowhere", "empty", "job"])
def test_where_there_is_nothing_to_check_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    Path("empty").mkdir()
    write("job/job.yaml", "protocolVersion: 2\ntype: job\n")
    monkeypatch.setattr(sys, "argv", ["pai-runtime", "marketplace", "check", path])
    assert command_line.main() == CANNOT_RUN
    printed = capsys.readouterr()
    assert printed.out == ""
    assert path in printed.err
