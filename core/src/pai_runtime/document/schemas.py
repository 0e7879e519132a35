"""Checking data against a JSON Schema, with messages for the person who wrote the data.

In a schema, ``title`` says in a few words what is expected there; messages use it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pai_runtime.document.document import Document, DocumentPath
from pai_runtime.document.problems import MOST_LOOKED_FOR, Position, Problem, Suggestions, bounded, field_name
from pai_runtime.document.quick_check import is_surely_schema, is_surely_valid
from pai_runtime.document.secret_names import names_secret
from pai_runtime.task import placeholders

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Schema = Mapping[str, Any]

_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
_LONGEST_FOUND = 60


@cache
def package_schema(package: str, name: str) -> Schema:
    """A schema that a package of this distribution ships."""
    schema: Schema = json.loads(Path(str(import_module(package).__file__)).with_name(name).read_bytes())
    return schema


def check_document(document: Document, schema: Schema, mask: Callable[[str], str] = str) -> list[Problem]:
    """All problems of a document; `mask` hides secrets in what is shown of it."""
    return check(document.root.data, schema, document, mask=mask)


def check(
    data: Any,
    schema: Schema,
    source: Document | Position,
    locate: Callable[[DocumentPath], DocumentPath] = tuple,
    mask: Callable[[str], str] = str,
) -> list[Problem]:
    """All problems of `data`, which comes from `source`; `locate` gives the path there of one in `data`."""
    if is_surely_valid(data, schema):
        return []
    place = source if isinstance(source, Position) else source.place(source.root)
    return bounded(_problems(data, schema, source, locate, mask), place)


def _problems(
    data: Any,
    schema: Schema,
    source: Document | Position,
    locate: Callable[[DocumentPath], DocumentPath],
    mask: Callable[[str], str],
) -> Iterator[Problem]:
    suggestions = Suggestions()
    for error in _errors(data, schema):
        path: DocumentPath = tuple(error.absolute_path)
        found = _shown(error.instance, path, mask)
        for relative, message, shown, expected, suggestion in _explain(error, found, suggestions):
            whole = locate((*path, *relative))
            is_key = bool(relative)
            place = source if isinstance(source, Position) else source.position(whole, is_key=is_key)
            yield Problem(message, place, field_name(whole), shown, expected, suggestion)


def _errors(data: Any, schema: Schema) -> Iterator["ValidationError"]:
    """The errors that help a person."""
    validator: Validator = _validator()(schema)
    for _, at_one_place in groupby(validator.iter_errors(data), lambda error: tuple(error.absolute_path)):
        found = list(islice(at_one_place, MOST_LOOKED_FOR + 1))
        # That it is too small, too, helps nobody.
        for error in [each for each in found if each.validator == "type"] or found:
            # The value of a secret is not known here.
            if error.validator == "type" or not _is_secret(error.instance):
                yield error


@cache
def _validator() -> Any:
    import jsonschema  # noqa: PLC0415 - slow to import, and most of what is checked is valid

    validators: Any = jsonschema.validators
    own = {"additionalProperties": _additional_properties}
    return validators.extend(jsonschema.Draft202012Validator, own)


def _additional_properties(
    validator: Any, allowed: Any, data: Any, schema: Schema
) -> Iterator["ValidationError"]:
    """In the order of the data; the library's goes by their hashes, which differ from run to run."""
    import jsonschema  # noqa: PLC0415 - as above

    if not isinstance(data, Mapping):
        return
    more = list(_unlisted(data, schema))
    if allowed is False and more:
        yield jsonschema.ValidationError(", ".join(more))
    for name in more if allowed is not False else ():
        yield from validator.descend(data[name], allowed, path=name)


def _unlisted(data: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    """The keys of `data` that the schema neither names nor has a pattern for."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return (
        name for name in data if name not in known and not any(re.search(each, name) for each in patterns)
    )


def _is_secret(value: Any) -> bool:
    return isinstance(value, str) and bool(placeholders.paths(value))


def schema_error(schema: Any) -> str | None:
    """Why `schema` is not a JSON Schema, if it is not."""
    if is_surely_schema(schema):
        return None
    import jsonschema  # noqa: PLC0415 - as above

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return error.message
    return None


_Explained = tuple[DocumentPath, str, str | None, str | None, str | None]


def _explain(error: "ValidationError", found: str, suggestions: Suggestions) -> Iterator[_Explained]:
    """What one error means: path below the value, message, found, expected, suggestion."""
    schema: Schema = error.schema if isinstance(error.schema, Mapping) else {}
    known: Mapping[str, Any] = schema.get("properties", {})
    given = cast("Any", error.validator_value)
    instance = cast("Any", error.instance)
    if error.validator == "required":
        meant = {suggestions.near_miss(name, known) for name in instance if name not in known}
        for name in given:
            if name not in instance and name not in meant:
                yield (), f"'{name}' is missing", None, expectation(known.get(name, {})), None
    elif error.validator == "additionalProperties":
        expected = "one of " + ", ".join(known) if known else expectation(schema)
        for name in _unlisted(instance, schema):
            yield (name,), "is not known here", None, expected, suggestions.near_miss(name, known)
    elif error.validator == "enum" and isinstance(error.instance, str):
        words = [value for value in given if isinstance(value, str)]
        yield (), "is not valid", found, expectation(schema), suggestions.near_miss(error.instance, words)
    elif error.parent and error.parent.validator == "propertyNames":
        yield (str(error.instance),), "is not valid", None, expectation(schema), None
    else:
        yield (), "is not valid", found, expectation(schema, str(error.validator)), None


def expectation(schema: Any, failed: str | None = None) -> str | None:
    """What a schema expects, in words."""
    if not isinstance(schema, Mapping):
        return None
    if "title" in schema:
        return str(schema["title"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    types = schema.get("type", [])
    words = " or ".join(_TYPES[name] for name in ([types] if isinstance(types, str) else types))
    if "minimum" in schema and failed != "type":
        words += f", at least {schema['minimum']}"
    if "maximum" in schema and failed != "type":
        words += f", at most {schema['maximum']}"
    if "pattern" in schema and failed != "type":
        words += f" that matches {schema['pattern']}"
    if failed in ("minItems", "minProperties", "minLength"):
        words = f"{words or 'something'} that is not empty"
    if not words and failed:
        words = f"what {failed} {json.dumps(schema.get(failed))} allows"
    return words or None


def _shown(value: Any, path: DocumentPath, mask: Callable[[str], str]) -> str:
    name, equals, _ = value.partition("=") if isinstance(value, str) else ("", "", "")
    if any(names_secret(str(part)) for part in path) or (equals and names_secret(name)):
        return "a hidden value"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    shown = mask(placeholders.show(value)) if isinstance(value, str) else value
    text = json.dumps(shown, ensure_ascii=False)
    return text if len(text) <= _LONGEST_FOUND else text[:_LONGEST_FOUND] + "…"
