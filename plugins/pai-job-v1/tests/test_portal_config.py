"""``pai-runtime convert --from-portal``: what OpenPAI shows of a job becomes a job file again."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_document.document import parse_document
from pai_document.problems import Problem, Problems
from pai_document.yaml_text import yaml_lines
from pai_job_v1.portal_config import HIDDEN, is_shown_config, job_of_config
from tests.job_harness import validated
from tests.support import PROGRAM, cli_each

# As OpenPAI's server replied to GET …/config, of a job whose secrets it hides.
_SHOWN: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "demo_1a2b3c4d",
    "type": "job",
    "jobRetryCount": 1,
    "prerequisites": [
        {
            "name": "img",
            "type": "dockerimage",
            "uri": "python:3.12",
            "auth": {"username": "u", "password": "<% $secrets.pw %>"},
        }
    ],
    "parameters": {"lr": 0.1},
    "secrets": "******",
    "taskRoles": {
        "ps_server": {
            "instances": 1,
            "completion": {"minFailedInstances": 1, "minSucceededInstances": -1},
            "dockerImage": "img",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0, "ports": {"grpc": 2}},
            "commands": ["echo <% $parameters.lr %> <% $secrets.token %>", "sleep 5"],
        }
    },
    "defaults": {"virtualCluster": "default"},
    "extras": {"submitFrom": "pai-runtime", "submission": "12", "gangAllocation": False},
}


def converted(document: Any) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    problems = Problems()
    made = job_of_config(parse_document(json.dumps(document), "config.json"), problems)
    text = "".join(f"{line}\n" for line in yaml_lines(made.root.data, made.comments))
    read: dict[str, Any] = parse_document(text, "job.yaml").data
    return read, problems.in_order


def referring(*references: str, **more: Any) -> dict[str, Any]:
    role = {**_SHOWN["taskRoles"]["ps_server"], "commands": [f"echo <% {each} %>" for each in references]}
    return {**_SHOWN, "prerequisites": [], "taskRoles": {"worker": role}, **more}


def test_a_job_is_the_same_but_for_what_a_submission_adds_and_its_secrets_are_to_be_filled_in() -> None:
    made, (problem,) = converted(_SHOWN)
    assert made == {
        **_SHOWN,
        "name": "demo",
        "secrets": {"pw": HIDDEN, "token": HIDDEN},
        "extras": {"gangAllocation": False},
    }
    assert (problem.code, problem.severity, problem.field) == ("hidden-secrets", "warning", "secrets")


@pytest.mark.parametrize(
    ("references", "placeholders"),
    [
        (["$secrets.a", "$secrets.a"], {"a": HIDDEN}),
        (["$secrets . db . user", "$secrets.db.keys[1]"], {"db": {"user": HIDDEN, "keys": [HIDDEN, HIDDEN]}}),
        (["$secrets.list.0"], {"list": [HIDDEN]}),
        (["$secrets.a", "$secrets.a.b"], {"a": {"b": HIDDEN}}),
        (["$secrets.a[999999999]"], {"a": {"999999999": HIDDEN}}),
        (["$parameters.lr", "secrets.x"], None),
    ],
)
def test_a_placeholder_stands_for_each_secret_that_is_used(references: list[str], placeholders: Any) -> None:
    assert converted(referring(*references))[0].get("secrets") == placeholders


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a_12345678", "a"), ("a_1234567", "a_1234567"), ("_12345678", "_12345678"), ("ab", "ab")],
)
def test_the_suffix_of_a_submission_is_no_part_of_the_name(name: str, expected: str) -> None:
    assert converted({**_SHOWN, "name": name})[0]["name"] == expected


def test_secrets_that_openpai_shows_are_kept_and_warned_of_without_their_values() -> None:
    made, (problem,) = converted({**_SHOWN, "secrets": {"token": "in-the-clear"}})
    assert made["secrets"] == {"token": "in-the-clear"}
    assert problem.code == "secrets-shown"
    assert "in-the-clear" not in str(problem)


_DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text("ab :#-", max_size=4), each, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=50)
@given(_DATA)
def test_what_else_a_job_has_is_read_as_it_was(data: Any) -> None:
    made, _ = converted({**_SHOWN, "secrets": None, "extras": {"own": data}})
    assert made == {**_SHOWN, "name": "demo", "secrets": None, "extras": {"own": data}}


@pytest.mark.parametrize(
    "document",
    [[], {}, "x", {"code": "NoJobError", "message": "no"}, {"protocolVersion": 2}, {"jobName": "old"}],
)
def test_other_documents_are_no_job(document: Any) -> None:
    assert not is_shown_config(parse_document(json.dumps(document), "config.json"))


@pytest.mark.process
def test_the_command_writes_a_job_that_is_refused_until_its_secrets_are_filled_in(tmp_path: Path) -> None:
    shown, new, other = tmp_path / "config.json", tmp_path / "job.yaml", tmp_path / "other.json"
    shown.write_text(json.dumps(_SHOWN))
    other.write_text('{"code": "NoJobError"}')
    done, again, wrong, plain = cli_each(
        ("convert", "--from-portal", shown, "--out", new),
        ("convert", "--from-portal", shown),
        ("convert", "--from-portal", other),
        ("convert", shown),
    )
    assert [each.returncode for each in (done, again, wrong, plain)] == [0, 0, 2, 2]
    assert done.stderr == again.stderr
    assert "pw, token" in done.stderr
    assert new.read_text() == again.stdout
    assert {each.code for each in validated(new)} == {"reference-to-nothing"}
    new.write_text(new.read_text().replace(f'"{HIDDEN}"', "mine").replace(f"'{HIDDEN}'", "mine"))
    assert not validated(new)


@pytest.mark.process
def test_the_configuration_may_come_from_standard_input() -> None:
    done = subprocess.run(
        [PROGRAM, "convert", "--from-portal", "-"],
        input=json.dumps(_SHOWN),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "\nname: demo\n" in done.stdout
