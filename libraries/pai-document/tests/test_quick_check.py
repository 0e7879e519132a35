"""The quick check of data and schemas: what it takes for valid, jsonschema does."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pai_document.document import read_document
from pai_document.quick_check import is_surely_schema, is_surely_valid
from pai_document.schemas import package_schema
from pai_runtime.host.discovery import InstalledPlugins, manifest_path
from tests.support import JOBS, ROOT

NAMES = st.sampled_from(["a", "b", "ab", "-", ""])
NUMBERS = st.sampled_from([-1, 0, 1, 2, 0.0, 1.0, 1.5, 1e300, 10**400])
SCALARS = st.none() | st.booleans() | NUMBERS | NAMES
DATA = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
PATTERNS = st.sampled_from(["a", "^b", "^$", "[ab]-", "(", "a{2}"])
SIZES = st.integers(0, 3)


KEYWORDS = (
    *("type", "enum", "const", "$ref", "$defs", "$schema", "format", "title", "default", "examples"),
    *("properties", "patternProperties", "additionalProperties", "propertyNames", "required"),
    *("pattern", "allOf", "anyOf", "not", "if", "items", "minLength", "minimum", "dependentRequired"),
    "deprecated",
)


def _schemas(each: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, max_size=2),
        "enum": st.lists(DATA, max_size=3),
        "const": DATA,
        "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b", "#/$defs/c", "#", "other.json"]),
        "format": st.just("uri"),
        "description": st.just("text"),
        "prefixItems": st.lists(each, min_size=1, max_size=2),
        "uniqueItems": st.booleans(),
        "contains": each,
        "multipleOf": st.sampled_from([1, 0.5]),
        "required": st.lists(NAMES, max_size=2),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2), max_size=2),
        "pattern": PATTERNS,
        "properties": st.dictionaries(NAMES, each, max_size=2),
        "patternProperties": st.dictionaries(PATTERNS, each, max_size=2),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), st.lists(each, min_size=1, max_size=3)),
        **dict.fromkeys(("not", "if", "then", "else"), each),
        **dict.fromkeys(("additionalProperties", "propertyNames", "items"), each),
        **dict.fromkeys(("minProperties", "maxProperties", "minItems", "maxItems"), SIZES),
        **dict.fromkeys(("minLength", "maxLength"), SIZES),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
    }
    entries = st.sampled_from(sorted(keywords)).flatmap(lambda name: st.tuples(st.just(name), keywords[name]))
    return st.booleans() | st.lists(entries, max_size=4).map(dict)


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({"type": TYPES}), _schemas, max_leaves=6)
WHOLE = st.builds(
    lambda schema, a, b: {**schema, "$defs": {"a": a, "b": b}} if isinstance(schema, dict) else schema,
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
)


@given(DATA, WHOLE)
@example(1, {"const": True})
@example(1.0, {"type": "integer"})
@example(data=True, schema={"type": "integer"})
@example([], {"items": False})
def test_data_that_pass_the_quick_check_are_valid(data: Any, schema: Any) -> None:
    assert not is_surely_valid(data, schema) or not list(
        jsonschema.Draft202012Validator(schema).iter_errors(data)
    )


def test_a_pattern_that_cannot_be_compiled_is_not_judged() -> None:
    assert not is_surely_schema({"pattern": f"a{{{10**20}}}"})


@given(WHOLE)
def test_a_schema_that_passes_the_quick_check_is_one(schema: Any) -> None:
    if is_surely_schema(schema):
        jsonschema.Draft202012Validator.check_schema(schema)


@given(
    st.dictionaries(st.sampled_from(KEYWORDS), DATA | st.dictionaries(PATTERNS, DATA, max_size=2), max_size=2)
)
def test_nor_is_any_other_value_taken_for_a_schema(value: Any) -> None:
    if is_surely_schema(value):
        jsonschema.Draft202012Validator.check_schema(value)


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (1, {"multipleOf": 1}),
        ([1], {"prefixItems": [{"type": "string"}], "items": False}),
        (1, {"$id": "https://example.org/", "type": "integer"}),
        (1, {"$schema": "http://json-schema.org/draft-07/schema#"}),
        (1, {"$ref": "#/$defs/none"}),
        (1, {"$ref": "#/$defs/self", "$defs": {"self": {"$ref": "#/$defs/self"}}}),
        (1, {"type": "whole"}),
        ("a", {"pattern": "("}),
        ([1], {"enum": [[1.0]]}),
    ],
    ids=str,
)
def test_what_it_does_not_judge_it_leaves_to_jsonschema(data: Any, schema: Any) -> None:
    assert not is_surely_valid(data, schema)


@pytest.mark.parametrize(
    "path", sorted([*JOBS.glob("*.yaml"), *ROOT.glob("examples/*.yaml")]), ids=lambda path: path.stem
)
def test_a_valid_job_needs_no_other_check(path: Path) -> None:
    schema = package_schema("pai_runtime.job", "job.schema.json")
    data = read_document(path).data
    assert is_surely_valid(data, schema) == jsonschema.Draft202012Validator(schema).is_valid(data)


@pytest.mark.parametrize("id_", InstalledPlugins())
def test_the_manifest_of_a_plugin_and_its_examples_need_no_other_check(id_: str) -> None:
    (plugin,) = InstalledPlugins()[id_]
    assert plugin.location
    manifest = json.loads(manifest_path(plugin.location).read_bytes())
    assert is_surely_valid(manifest, package_schema("pai_runtime.host", "manifest.schema.json"))
    assert is_surely_schema(manifest["parameters"])
    for each in manifest["parameters"]["examples"]:
        assert is_surely_valid(each, manifest["parameters"])
