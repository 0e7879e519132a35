"""The text of a job for a ConfigMap: without its secrets."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_document.document import parse_document
from pai_document.problems import InvalidInput
from pai_runtime.job.secrets import secret_values
from pai_runtime.job.without_secrets import job_config
from pai_task.secret_forms import is_too_short
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
ALIAS = "extras: {all: &all {token: hunter2}}\nsecrets: *all\n"


def hidden(text: str, secrets: dict[str, Any] | None = None) -> str:
    return job_config(build(text, secrets)).text


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
    ("before", "after"),
    [
        ("", "parameters: {x: /home/hunter2}\n"),
        ("", "extras:\n  - |\n    a\n    echo hunter2\n"),
        ("", 'parameters: {x: "hun\\x74er2"}\n'),
        ("# hunter2\n", ""),
        ("", "name2: x  # it is hunter2\n"),
        ("extras: {s: &s {token: hunter2}}\n", "<<: *s\n"),
        ("", "parameters: {/home/hunter2: x}\n"),
        ("", 'parameters: {"hun\\x74er2": {}}\n'),
        ("", 'extras: [{x: {? "hun\\\n  ter2" : []}}]\n'),
    ],
)
def test_a_file_with_a_secret_elsewhere_too_is_secret(before: str, after: str) -> None:
    text = f"{before}{WITHOUT}# secrets\nsecrets:\n  token: hunter2\n{after}"
    found = job_config(build(text))
    assert found.is_secret
    other = job_config(build(text.replace("er2", "er3")))
    assert other.digest == found.digest
    assert job_config(build(text.replace("image", "other"))).digest != found.digest


KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "parameters: {x: MIIEvQIBADANBgkq}\n",
        "# hkiG9w0BAQEFAASC\n",
        "parameters: {hkiG9w0BAQEFAASC: x}\n",
        "parameters: {x: MIIEvQIBADANBgkqhkiG9w0BAQEFAASC}\n",
        "parameters: {x: '-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkq'}\n",
        "parameters: {x: TUlJRXZRSUJBREFOQmdrcQ==}\n",  # in base64
        'parameters: {x: "MIIEvQIBAD\\\n  ANBgkq"}\n',
    ],
)
def test_a_line_of_a_secret_or_another_form_of_it_makes_the_file_secret(elsewhere: str) -> None:
    assert job_config(build(WITHOUT + elsewhere, {"token": KEY})).is_secret
    other = "".join(reversed(KEY))
    assert not job_config(build(WITHOUT + elsewhere, {"token": other})).is_secret


def test_the_secrets_of_another_file_are_looked_for_too() -> None:
    text = f"{WITHOUT}description: it is hunter2\n"
    assert job_config(build(text, {"token": "hunter2"})).is_secret
    assert not job_config(build(text, {"token": "hunter3"})).is_secret


@pytest.mark.parametrize("text", ["secrets:\n  token: &one hunter2\nextras: {x: *one}\n", ALIAS])
def test_secrets_that_cannot_be_taken_out_of_the_file_are_refused(text: str) -> None:
    assert [code for code, _, _ in problems(f"{WITHOUT}{text}")] == ["secrets-not-apart"]


@pytest.mark.parametrize("value", ["<% $", "1"])
def test_a_reference_or_something_short_gives_nothing_away(value: str) -> None:
    assert not job_config(build(f"{WITHOUT}secrets: {{token: '{value}'}}\n")).is_secret


TEXTS = st.text("ab'\"#:\n <%>*", min_size=1, max_size=9)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), TEXTS | st.lists(TEXTS, min_size=1), min_size=1),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.sampled_from([json.dumps, yaml_text]),
)
def test_no_secret_is_left_in_any_job(secrets: Any, parameters: Any, write: Callable[[Any], str]) -> None:
    text = write(job(secrets=secrets, parameters=parameters))
    found = job_config(build(text))
    data = parse_document(text, "job.yaml").data
    masked = parse_document(found.text, "job.yaml").data
    assert masked == {**data, "secrets": "******"}
    values = [each for each in secret_values(build(text).secrets).values() if not is_too_short(each)]
    others = [*parameters, *parameters.values()]
    assert found.is_secret or not any(
        value.strip("\n") in _plain(each) for value in values for each in others
    )


def _plain(text: str) -> str:
    """Without the references that may be in it."""
    return re.sub("<%.*?%>", "", text)
