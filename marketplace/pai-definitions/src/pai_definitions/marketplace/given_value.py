"""Values of template variables, as people give them on a command line or in a form."""

import json

from pai_definitions.marketplace.yaml_line import yaml_line
from pai_document.document import parse_document, plain_scalar
from pai_document.value import Value


def given_value(text: str, where: str) -> Value:
    """Parse a value as a YAML scalar; only in quotes or brackets it is parsed as a document.

    `where` names it in problems. Raises `InvalidInput`.
    """
    if text[:1] in ("'", '"', "[", "{"):
        return parse_document(text, where)
    value = parse_document(json.dumps(text, ensure_ascii=False), where)
    return Value(value.node.replaced(plain_scalar(text) if text else text, text))


def as_written(value: Value) -> str:
    """Return a given value as YAML on one line: a number as it was given, all others as data."""
    return yaml_line(value.data) if isinstance(value.data, (str, list, dict)) else value.text
