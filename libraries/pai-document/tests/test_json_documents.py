"""JSON is read as JSON: with positions as YAML has them, also where YAML would read it differently."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_document.document import parse_document, read_document
from pai_document.problems import InvalidInput, Problem
from pai_document.value import walk


def refused(text: str) -> Problem:
    with pytest.raises(InvalidInput) as caught:
        parse_document(text, "job.json")
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (r'{"a": "\ud83d\ude00"}', "😀"),
        (r'{"a": "\/\b\f\n\r\t\"\\\u0041"}', '/\b\f\n\r\t"\\A'),
        ('{"a": "x\u2028y\u0085z"}', "x\u2028y\u0085z"),
        ('\t{\t"a"\t:\t1\t}\t\n', 1),
        ('{"a":-1.5e3}', -1500.0),
        ('{"a":true}', True),
        ('{"a":null}', None),
        ('{"a":[{}, [], "", {"b": [1]}]}', [{}, [], "", {"b": [1]}]),
        ('{"a": "' + "x" * 2000 + '"}', "x" * 2000),
        ('{"a":"yes: # no"}', "yes: # no"),
    ],
)
def test_json_means_what_json_says(text: str, data: Any) -> None:
    assert parse_document(text, "job.json").data == {"a": data}


def test_a_key_may_be_long_and_is_never_a_merge() -> None:
    long = "k" * 5000
    assert parse_document(json.dumps({long: 1, "<<": {"a": 1}}), "job.json").data == {long: 1, "<<": {"a": 1}}


def test_each_value_knows_where_it_is() -> None:
    root = parse_document('{\n\t"a": {"b": [1, "\\ud83d\\ude00"]}\n}\n', "job.json")
    places = {path: root.node.source.position(node.start) for path, node in walk(root.node)}
    assert {path: (each.line, each.column) for path, each in places.items()} == {
        ("a", "b", 0): (2, 14),
        ("a", "b", 1): (2, 17),
    }
    value = root.get("a", "b")
    assert value
    assert (value.key_position.line, value.key_position.column) == (2, 8)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('{"a": 1,\n"a": 2}', "duplicate-key", 2),
        ('{"a": {"b": 1,\n"b": "\\ud83d\\ude00"}}', "duplicate-key", 2),
        ('{"a":\n"\\u0000"}', "nul", 2),
        ('{"a":' * 200 + "1" + "}" * 200, "too-deep", 1),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "too-deep", 1),
        ("{" + ",".join(f'"k{number}":0' for number in range(100_001)) + "}", "too-many-values", 1),
        ('{"a":\n"\x7f"}', "not-yaml", 2),
    ],
)
def test_the_bounds_are_those_of_yaml(text: str, code: str, line: int) -> None:
    problem = refused(text)
    assert problem.code == code
    assert problem.position
    assert problem.position.line == line


@pytest.mark.parametrize("text", ['{"a": "\\ud83d"}', '{"a": "\\ude00\\ud83d"}', '{"\\ud83d": 1}'])
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    assert refused(text).position


@pytest.mark.parametrize("number", ["1" * 5000, "1e999", "NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_text(number: str) -> None:
    assert parse_document(f'{{"a": {number}}}', "job.json").data == {"a": number}


def test_what_is_not_quite_json_is_read_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"a": [1, 2,], # two\n b: c}\n')
    assert read_document(path).data == {"a": [1, 2], "b": "c"}


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
_DOCUMENT = st.dictionaries(
    _TEXT,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)


@settings(max_examples=100)
@given(_DOCUMENT, st.sampled_from([None, 0, "\t"]))
def test_whatever_json_can_write_is_read(document: dict[str, Any], indent: int | str | None) -> None:
    assert parse_document(json.dumps(document, indent=indent), "job.json").data == document
