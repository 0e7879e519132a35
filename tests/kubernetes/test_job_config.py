"""The text of a job for a ConfigMap: without its secrets."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_kubernetes.manifests.job_config import job_config
from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import InvalidInput
from tests.job_harness import build, yaml_text
from tests.support import JOBS, job

WITHOUT = """\
protocolVersion: 2
name: test
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}
    commands: [echo <% $secrets.token %>]
"""


def hidden(text: str, secrets: dict[str, Any] | None = None) -> str:
    return job_config(build(text, secrets))


def problems(text: str, secrets: dict[str, Any] | None = None) -> list[tuple[str, str, int]]:
    with pytest.raises(InvalidInput) as raised:
        hidden(text, secrets)
    return [(each.code, each.field, each.position.line) for each in raised.value.problems if each.position]


@pytest.mark.parametrize(
    "section",
    [
        "secrets:\n  token: hunter2\n",
        "secrets:  # hunter2, too\n\n  # and hunter2\n  token: hunter2  # hunter2\n  # hunter2\n\n",
        'secrets: {token: hunter2, "other": [hunter2]}\n',
        "'secrets':\n  token: |\n    hunter2\n    hunter2\n",
        "secrets:\r\n  token: hunter2\r\n",
        "secrets: &all\n  token: &one hunter2\n  other: *one\n",
        "secrets:\n  token: !!str hunter2\n",
    ],
)
@pytest.mark.parametrize("form", ["{0}{1}", "{1}{0}"])
def test_secrets_are_hidden_however_they_are_written(section: str, form: str) -> None:
    text = form.replace("{0}", WITHOUT).replace("{1}", section)
    masked = hidden(text)
    assert "hunter2" not in masked
    data = parse_document(text, "job.yaml").data
    assert parse_document(masked, "job.yaml").data == {**data, "secrets": "******"}


def test_all_other_lines_keep_their_numbers() -> None:
    text = f"secrets:\n  # a comment\n  token:\n    - hunter2\n\n{WITHOUT}"
    lines = hidden(text).splitlines()
    assert lines[5:] == WITHOUT.splitlines()
    assert len(lines) == len(text.splitlines())


def test_json_stays_json() -> None:
    text = '{"name": "x", "secrets": {\n"token":\n"hunter2"}, "taskRoles": {}}'
    assert hidden(text) == '{"name": "x", "secrets": "******"\n\n, "taskRoles": {}}'


@pytest.mark.parametrize("section", ["", "secrets: '******'\n", "secrets: null\n", "secrets: {}\n"])
def test_a_file_without_secrets_stays_as_it_is(section: str) -> None:
    assert hidden(WITHOUT + section) == WITHOUT + section
    assert hidden(WITHOUT + section, {"token": "hunter2"}) == WITHOUT + section


def test_a_job_of_version_1_stays_as_it_is() -> None:
    text = next((JOBS / "legacy").glob("*.json")).read_text("utf-8")
    assert hidden(text) == text


@pytest.mark.parametrize(
    ("before", "after", "code", "field", "line"),
    [
        ("", "parameters: {x: my-hunter2}\n", "secret-in-job", "parameters.x", 11),
        ("", "extras:\n  - |\n    a\n    echo hunter2\n", "secret-in-job", "extras[0]", 12),
        ("# hunter2\n", "", "secret-in-job", "", 1),
        ("", "name2: x  # it is hunter2\n", "secret-in-job", "", 11),
        ("", "extras: {x: *one}\n", "secrets-not-apart", "secrets", 9),
        ("extras: {s: &s {token: hunter2}}\n", "<<: *s\n", "secret-in-job", "extras.s.token", 1),
    ],
)
def test_a_secret_that_stands_elsewhere_is_refused(
    before: str, after: str, code: str, field: str, line: int
) -> None:
    text = f"{before}{WITHOUT}# secrets\nsecrets:\n  token: &one hunter2\n{after}"
    assert problems(text) == [(code, field, line)]


def test_secrets_that_are_an_alias_are_refused() -> None:
    text = f"parameters: {{all: &all {{token: hunter2}}}}\n{WITHOUT}secrets: *all\n"
    assert [code for code, _, _ in problems(text)] == ["secrets-not-apart"]


def test_the_secrets_of_another_file_are_looked_for_too() -> None:
    assert problems(f"{WITHOUT}description: it is hunter2\n", {"token": "hunter2"}) == [
        ("secret-in-job", "description", 8)
    ]


@pytest.mark.parametrize("value", ["token", "secrets", "<% $", "cpu", "1"])
def test_a_reference_a_key_or_something_short_gives_nothing_away(value: str) -> None:
    assert "******" in hidden(f"{WITHOUT}secrets: {{token: '{value}'}}\n")


TEXTS = st.text("ab'\"#:\n <%>*", min_size=1, max_size=9)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), TEXTS | st.lists(TEXTS, min_size=1), min_size=1),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.sampled_from([json.dumps, yaml_text]),
)
def test_no_secret_is_left_in_any_job(secrets: Any, parameters: Any, write: Callable[[Any], str]) -> None:
    text = write(job(secrets=secrets, parameters=parameters))
    try:
        masked = hidden(text)
    except InvalidInput as error:
        codes = {each.code for each in error.problems}
    else:
        codes = set()
        data = parse_document(text, "job.yaml").data
        assert parse_document(masked, "job.yaml").data == {**data, "secrets": "******"}
    assert codes <= {"secret-in-job"}
