"""Validation of data against a JSON Schema, with messages for users.

In a schema, ``title`` says in a few words what is expected there; messages use it. Our own keyword ``hints``
says of fields that are not in ``properties``, but that people expect there, what to do instead.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pai_document.problems import (
    MOST_LOOKED_FOR,
    DocumentPath,
    Location,
    Position,
    Problem,
    Problems,
    Suggestions,
    bounded,
    field_name,
    unexpected,
)
from pai_document.quick_check import is_surely_schema, is_surely_valid
from pai_document.secret_names import names_secret
from pai_document.value import Value, is_commands
from pai_task import placeholders
from pai_task.record import record

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Schema = Mapping[str, Any]

_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
_LONGEST_FOUND = 60
_HIDDEN = "a hidden value"


@cache
def package_schema(package: str, name: str) -> Schema:
    """Load the JSON Schema `name` that is beside the modules of one of our packages."""
    schema: Schema = json.loads(Path(str(import_module(package).__file__)).with_name(name).read_bytes())
    return schema


def check_value(value: Value, schema: Schema, problems: Problems) -> None:
    """Validate a value of a document, and add every error to `problems`."""
    check(value.data, schema, problems, value.at)


def check(data: Any, schema: Schema, problems: Problems, locate: Callable[[DocumentPath], Location]) -> None:
    """Validate data, and add every error to `problems`; `locate` maps a path in it to its location."""
    if not is_surely_valid(data, schema):
        problems.add(*bounded(_problems(data, schema, problems, locate), locate(()).position))


def located_in(file: str) -> Callable[[DocumentPath], Location]:
    """Return a `locate` function for `check` for data of which only the file is known."""
    position = Position(file)
    return lambda path: Location(position, position, field_name(path))


def _problems(
    data: Any, schema: Schema, problems: Problems, locate: Callable[[DocumentPath], Location]
) -> Iterator[Problem]:
    for error in _errors(data, schema):
        path: DocumentPath = tuple(error.absolute_path)
        found = _shown(error.instance, path, problems.mask)
        for each in _explain(error, found, problems.suggestions):
            where = locate((*path, *each.below))
            why, meant = _mistake(error, path, where, problems.mask) if found != _HIDDEN else ("", None)
            yield Problem(
                each.code,
                f"{each.message}: {why}" if why else each.message,
                where.key_position if each.below else where.position,
                where.field,
                found=each.found,
                expected=each.expected,
                suggestion=each.suggestion or meant,
            )


def _mistake(
    error: "ValidationError", path: DocumentPath, where: Location, mask: Callable[[str], str]
) -> tuple[str, str | None]:
    """Explain how YAML misread a value that was meant as another type, and suggest how to write it."""
    from pai_document.mistakes import meant_as_text, missing_space  # noqa: PLC0415 - most is valid

    schema: Schema = error.schema if isinstance(error.schema, Mapping) else {}
    data: Any = error.instance
    if error.validator != "type":
        return "", None
    if "string" not in schema.get("type", ()):
        text = data if isinstance(data, str) and len(data) <= _LONGEST_FOUND else ""
        why, meant = missing_space(text)
    else:
        text = where.written.removeprefix("- ")
        is_command = len(path) > 1 and isinstance(path[-1], int) and is_commands(path[-2])
        # Elsewhere than among commands, a list or mapping is hardly meant as text.
        is_text = is_command or not isinstance(data, (dict, list))
        why, meant = meant_as_text(where.written) if is_text else ("", None)
        if not text or not is_surely_valid(text, schema):
            return "", None
    return why, meant if mask(text) == text else None


def _errors(data: Any, schema: Schema) -> Iterator["ValidationError"]:
    """Yield the validation errors of data that are useful to a user."""
    validator: Validator = _validator()(schema)
    for _, at_one_place in groupby(validator.iter_errors(data), lambda error: tuple(error.absolute_path)):
        found = list(islice(at_one_place, MOST_LOOKED_FOR + 1))
        # After a wrong type, further errors of the same value help nobody.
        for error in [each for each in found if each.validator == "type"] or found:
            if not _depends_on_secret(error):
                yield error


def _depends_on_secret(error: "ValidationError") -> bool:
    """Return whether an error might vanish once a secret's placeholder is replaced by its value.

    A secret is always a string, and never one of an enumeration: those decide what a plan contains.
    """
    if error.validator in ("type", "enum", "const"):
        return False
    if error.context:
        branches = groupby(error.context, lambda inner: inner.schema_path[0])  # those of anyOf and oneOf
        return any(all(map(_depends_on_secret, branch)) for _, branch in branches)
    return isinstance(error.instance, str) and placeholders.has_secret(error.instance)


@cache
def _validator() -> Any:
    import jsonschema  # noqa: PLC0415 - slow to import, and most of what is checked is valid

    validators: Any = jsonschema.validators
    own = {"additionalProperties": _additional_properties}
    return validators.extend(jsonschema.Draft202012Validator, own)


def _additional_properties(
    validator: Any, allowed: Any, data: Any, schema: Schema
) -> Iterator["ValidationError"]:
    """Validate ``additionalProperties`` in the order of the data; jsonschema's order depends on hashes."""
    import jsonschema  # noqa: PLC0415 - as above

    if not isinstance(data, Mapping):
        return
    more = list(_unlisted(data, schema))
    if allowed is False and more:
        yield jsonschema.ValidationError(", ".join(more))
    for name in more if allowed is not False else ():
        yield from validator.descend(data[name], allowed, path=name)


def _unlisted(data: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    """Yield the keys of `data` that match neither ``properties`` nor ``patternProperties``."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return (
        name for name in data if name not in known and not any(re.search(each, name) for each in patterns)
    )


def schema_error(schema: Any) -> str | None:
    """Return why `schema` is not a valid JSON Schema; None if it is."""
    if is_surely_schema(schema):
        return None
    import jsonschema  # noqa: PLC0415 - as above

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return error.message
    return None


@record(frozen=True)
class _Explained:
    """A validation error in words, with the fields of a `Problem`.

    `below` is the path from the value to the key that is wrong, if any.
    """

    code: str
    message: str
    found: str | None = None
    expected: str | None = None
    suggestion: str | None = None
    below: DocumentPath = ()


def _explain(error: "ValidationError", found: str, suggestions: Suggestions) -> Iterator[_Explained]:
    schema: Schema = error.schema if isinstance(error.schema, Mapping) else {}
    if error.validator == "required":
        yield from _missing(error, schema, suggestions)
    elif error.validator == "additionalProperties":
        yield from _unknown(error, schema, suggestions)
    else:
        is_name = list(error.schema_path)[-2:-1] == ["propertyNames"]
        is_type = error.validator == "type"
        expected = expectation(schema, str(error.validator))
        words = schema.get("enum", ()) if isinstance(error.instance, str) else ()
        known = [word for word in words if isinstance(word, str)]
        yield _Explained(
            "wrong-name" if is_name else "wrong-type" if is_type else "wrong-value",
            unexpected(expected, found),
            found=found,
            expected=expected,
            suggestion=suggestions.near_miss(str(error.instance), known) if known else None,
            below=(str(error.instance),) if is_name else (),
        )


def _missing(error: "ValidationError", schema: Schema, suggestions: Suggestions) -> Iterator[_Explained]:
    known: Mapping[str, Any] = schema.get("properties", {})
    instance = cast("Any", error.instance)
    misspelt = {suggestions.near_miss(name, known): name for name in instance if name not in known}
    for name in cast("Any", error.validator_value):
        if name in instance or (name in misspelt and schema.get("additionalProperties") is False):
            continue  # the misspelt one is reported as an unknown field
        expected = expectation(known.get(name, {}))
        message = f"missing field '{name}'; expected {expected}" if expected else f"missing field '{name}'"
        written = misspelt.get(name)
        yield _Explained(
            "missing-field",
            message if written is None else f"{message}, found a field '{written}'",
            found=None if written is None else f"'{written}'",
            expected=expected,
            suggestion=None if written is None else name,
            below=() if written is None else (written,),
        )


def _unknown(error: "ValidationError", schema: Schema, suggestions: Suggestions) -> Iterator[_Explained]:
    known: Mapping[str, Any] = schema.get("properties", {})
    hints: Mapping[str, str] = schema.get("hints", {})
    listed = f"unknown field; known: {', '.join(known)}" if known else "unknown field"
    for name in _unlisted(cast("Any", error.instance), schema):
        hint = hints.get(name)
        meant = None if hint else suggestions.near_miss(name, known)
        message = f"unknown field; {hint}" if hint else listed
        yield _Explained("unknown-field", message, suggestion=meant, below=(name,))


def expectation(schema: Any, failed: str | None = None) -> str | None:
    """Describe in words what a schema expects; `failed` is the keyword that was violated.

    None if there are no words.
    """
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
        return _HIDDEN
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    shown = mask(placeholders.show(value)) if isinstance(value, str) else value
    text = json.dumps(shown, ensure_ascii=False)
    return text if len(text) <= _LONGEST_FOUND else text[:_LONGEST_FOUND] + "…"
