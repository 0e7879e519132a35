"""``pai-runtime convert``: a job of version 1 as one of version 2 that means the same, for people to read."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_document.document import parse_document
from pai_document.problems import Problems, errors
from pai_document.yaml_text import yaml_lines
from pai_job_v1.conversion import converted
from tests.job_harness import planned, validated
from tests.legacy_jobs import legacy_job, port, role, written
from tests.support import JOBS, cli, cli_each

SAMPLES = sorted((JOBS / "legacy").glob("*.json"))


def yaml_of(document: dict[str, Any]) -> str:
    made = converted(parse_document(json.dumps(document), "old.json"), Problems())
    return "".join(f"{line}\n" for line in yaml_lines(made.root.data, made.comments))


def meaning(path: Path) -> list[dict[str, Any]]:
    """The plans of a job without where it is written, and what its conversion says."""

    def without_places(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: without_places(each) for k, each in value.items() if k not in ("source", "warnings")}
        return [without_places(each) for each in value] if isinstance(value, (list, tuple)) else value

    plans = [plan.to_json() for plan in planned(path).values()]
    assert all("source" in str(plan) for plan in plans)
    return [without_places(plan) for plan in plans]


@pytest.mark.process
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_both_versions_of_a_sample_have_the_same_plans(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    (done,) = cli_each(("convert", path, "--out", new))
    assert done.returncode == 0, done.stderr
    assert not [each for each in validated(new) if each.code != "no-effect"]
    assert meaning(new) == meaning(path)


_NAME = st.from_regex(r"[A-Za-z0-9._~]{1,5}", fullmatch=True)
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_SHELL = st.sampled_from(
    ["echo a: b", "- x", "# only", "<% $data.uri %>", "  two\n lines \n\n", "0x10", "~", "\t."]
)
_VARIABLES = st.dictionaries(
    st.sampled_from(["A", "_b", "HOME2"]),
    _TEXT | st.booleans() | st.integers() | st.floats(-9, 9),
    max_size=3,
)
_PORTS = st.lists(
    st.builds(port, _NAME, st.just(0), st.integers(1, 3)),
    max_size=2,
    unique_by=lambda each: str(each["label"]),
)
_FIELDS = {
    "taskNumber": st.integers(1, 3),
    "shmMB": st.none() | st.integers(0, 128),
    "gpuNumber": st.integers(0, 2),
    "minFailedTaskCount": st.none() | st.integers(1, 3),
    "minSucceededTaskCount": st.none() | st.integers(1, 3),
    "command": st.tuples(_SHELL | _TEXT, st.just("x")).map("".join),
    "portList": st.none() | _PORTS,
}
_ROLE = st.fixed_dictionaries({"name": _NAME}, optional=_FIELDS).map(lambda fields: role(**fields))
_ROLES = st.lists(_ROLE, min_size=1, max_size=3, unique_by=lambda each: str(each["name"]))
_FURTHER = {
    **dict.fromkeys(("authFile", "dataDir", "outputDir", "codeDir", "gpuType", "virtualCluster"), _TEXT),
    "retryCount": st.none() | st.integers(0, 3),
    "jobEnvs": st.none() | _VARIABLES,
    "extras": st.dictionaries(
        _TEXT, st.recursive(_TEXT | st.none(), lambda each: st.lists(each, max_size=2))
    ),
}
_JOB = st.tuples(
    _ROLES, st.fixed_dictionaries({"jobName": _NAME, "image": st.just("a b")}, optional=_FURTHER)
).map(lambda parts: legacy_job(*parts[0], **parts[1]))


@settings(max_examples=50)
@given(_JOB)
def test_what_is_written_is_what_was_made(document: dict[str, Any]) -> None:
    made = converted(parse_document(json.dumps(document), "old.json"), Problems())
    assert parse_document(yaml_of(document), "new.yaml").data == made.root.data


@pytest.mark.process
@settings(max_examples=8)
@given(_JOB)
def test_both_versions_of_any_job_have_the_same_plans(document: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, new = written(Path(folder), document), Path(folder, "new.yaml")
        new.write_text(yaml_of(document), "utf-8")
        found = [[each.code for each in errors(validated(path))] for path in (old, new)]
        assert found[0] == found[1]
        if not found[0]:
            assert meaning(new) == meaning(old)


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi",
        "true: false",
        "x #y",
        "- a",
        "",
        "no",
        "1e3",
        "0o7",
        "null",
        "'a'",
        '"a"',
        " a",
        "a ",
        "a:",
        "a\n",
        "a\nb",
        "a\nb\n",
        "a\nb\n\n",
        "\na",
        " a\nb",
        "a\n b\n\tc \n  ",
        "a\r\nb",
        "\u2028",
        "\u3164a\nb",
        "😀",
        "%a",
        "@",
        "...",
        "---",
        "? a",
        "<<",
        "a\x7f",
        "{{ x }}",
        "[]",
        "\u00a0",
        "a\n---\nb",
    ],
)
def test_every_text_is_written_so_that_it_is_read_as_it_was(command: str) -> None:
    document = {command: [command, {command: command, "list": [[command], {}, []]}]}
    text = "".join(f"{line}\n" for line in yaml_lines(document, {("", 0): ["x"]}))
    assert parse_document(text, "new.yaml").data == document
    assert all(line.isprintable() or "\t" in line for line in text.splitlines())


def test_a_key_of_any_length_is_written() -> None:
    document = {"k" * 5000: {"a": 1}, "list": [{"k" * 5000: ["a"]}]}
    text = "".join(f"{line}\n" for line in yaml_lines(document, {}))
    assert parse_document(text, "new.yaml").data == document


def test_commands_are_written_as_people_write_them() -> None:
    text = yaml_of(legacy_job(role(command="pip install scipy\npython train.py --lr 0.1")))
    assert "      - |-\n        pip install scipy\n        python train.py --lr 0.1\n" in text
    assert "      - nvidia-smi\n" in yaml_of(legacy_job(role(command="nvidia-smi")))


def test_what_was_decided_stands_in_comments_where_it_is_about() -> None:
    document = legacy_job(
        role(name="a.b", storageGB=5, minFailedTaskCount=None),
        authFile="hdfs://h/a",
        jobEnvs={"isDebug": True},
    )
    lines = yaml_of(document).splitlines()
    fields = ((re.match(r" *# ([a-zA-Z][\w.\[\]]*): ", line), number) for number, line in enumerate(lines, 1))
    after = {match[1]: lines[number:] for match, number in fields if match}
    following = {
        field: next(line.strip() for line in rest if not line.lstrip().startswith("#"))
        for field, rest in after.items()
    }
    assert following == {
        "authFile": "- name: docker_image_0",
        "taskRoles[0].name": "a_b:",
        "taskRoles[0].storageGB": "a_b:",
        "taskRoles[0].minFailedTaskCount": "minFailedInstances: -1",
        "jobEnvs.isDebug": "holdOnFailure: 24h",
    }


def test_what_a_job_holds_never_leaves_its_comment() -> None:
    document = legacy_job(
        dataDir="hdfs://h/\nname: other", jobEnvs={"A": "\u2028name: other"}, codeDir="\nx: 1"
    )
    made = parse_document(yaml_of(document), "new.yaml")
    assert made.data["name"] == "old"
    assert "x" not in made.data


@pytest.mark.process
def test_the_same_job_gives_the_same_text(tmp_path: Path) -> None:
    path = SAMPLES[0]
    first, second = cli_each(("convert", path), ("convert", path))
    assert first.stdout == second.stdout
    assert first.stdout.startswith("#")
    (tmp_path / "new.yaml").write_text(first.stdout, "utf-8")
    assert not errors(validated(tmp_path / "new.yaml"))


@pytest.mark.process
def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path, legacy_job())
    before = path.read_text()
    (done,) = cli_each(("convert", path, "--out", path))
    assert done.returncode == 2
    assert path.read_text() == before


@pytest.mark.process
def test_what_is_not_of_version_1_is_refused(tmp_path: Path) -> None:
    wrong = written(tmp_path, legacy_job(image=""))
    ended = cli_each(("convert", JOBS / "pre1.yaml"), ("convert", wrong), ("convert", tmp_path / "gone"))
    assert [done.returncode for done in ended] == [2, 1, 1]
    assert not any(done.stdout for done in ended)


@pytest.mark.process
def test_problems_of_the_old_file_are_told_with_their_lines(tmp_path: Path) -> None:
    path = written(tmp_path, legacy_job(role(taskNumber=0)))
    done = cli("convert", path)
    assert f"{path}:7:21: error: taskRoles[0].taskNumber: " in done.stderr
