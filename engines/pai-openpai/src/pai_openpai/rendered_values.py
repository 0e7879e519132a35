"""Values of parameters that OpenPAI's REST server changes when it puts them into commands.

It renders commands before the pod sees them, with JavaScript's values, while this runtime inserts a value as
it was written. Quoted values are the same for both.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from pai_document.problems import Problem, Severity
from pai_document.value import Value
from pai_runtime.job.reading import mapping, strings

_CODE = "changed-by-openpai"
_PARAMETER = re.compile(r"<%\s*\$parameters\s*\.\s*([\w-]+)[^<>%]*%>")
_TAG = re.compile(r"<%\s*(?:[#^/>{&=!]|(?![^%]*%>))")
_ANCHOR = re.compile(r"&\S+\s+")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_LEFT_AS_TEXT = re.compile(r"[-+]?0(?:\d|o).*")  # its YAML 1.1 knows no 0o17, and no numbers such as 09
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d\S*(?:[ \t]+\S+)?")


def changed_values(root: Value) -> Iterator[Problem]:
    """Report the parameters in commands of which OpenPAI makes another text than this runtime.

    Another form of the same number or truth value is a warning, anything else an error.
    """
    parameters, roles = mapping(root, "parameters"), mapping(root, "taskRoles")
    if parameters is None or roles is None:
        return
    commands = (command.text for role in roles.values() for command in strings(role, "commands"))
    used = {name for command in commands for name in _PARAMETER.findall(command)}
    for parameter in parameters.values():
        if parameter.key in used:
            yield from map(_problem, _changed(parameter))


def changed_tags(root: Value) -> Iterator[Problem]:
    """Report what begins with ``<%`` in commands and is a tag of Mustache to OpenPAI, but no reference."""
    roles = mapping(root, "taskRoles")
    for command in (each for role in (roles.values() if roles else ()) for each in strings(role, "commands")):
        if found := _TAG.search(command.text):
            message = f"OpenPAI drops or refuses what begins with '{found[0]}'; write '<' and '%' apart"
            yield command.problem(_CODE, message, found[0])


def _changed(value: Value) -> Iterator[Value]:
    if isinstance(value.data, (dict, list)):
        for child in value.values():
            yield from _changed(child)
    elif _is_plain(value) and _rendered(value) != value.text:
        yield value


def _is_plain(value: Value) -> bool:
    """Return whether a scalar was written without quotes or a tag, so that its form decides its type."""
    node = value.node
    return _ANCHOR.sub("", node.source.text[node.start : node.end], count=1) == value.text


def _problem(value: Value) -> Problem:
    rendered = _rendered(value)
    message = (
        f"OpenPAI inserts {rendered} into commands where this runtime inserts {value.text};"
        " write the value in quotes, then both insert it as it is"
    )
    severity: Severity = "warning" if _means_the_same(value, rendered) else "error"
    return value.problem(_CODE, message, rendered, value.text, severity=severity)


def _means_the_same(value: Value, rendered: str) -> bool:
    if isinstance(value.data, bool):
        return True
    return isinstance(value.data, (int, float)) and Decimal(str(value.data)) == Decimal(rendered)


def _rendered(value: Value) -> str:
    """Return a plain scalar as the server inserts it."""
    text, data = value.text, value.data
    if isinstance(data, bool):
        return text.lower()
    if _OCTAL.fullmatch(text):
        return _in_javascript(int(text, 8))
    if isinstance(data, (int, float)) and not _LEFT_AS_TEXT.fullmatch(text):
        return _in_javascript(data)
    if infinity := _INFINITY.fullmatch(text):
        return f"{infinity[1].replace('+', '')}Infinity"
    return "a date in words" if _DATE.fullmatch(text) else text


def _in_javascript(number: float) -> str:
    """Return a number as JavaScript's ``String`` writes it."""
    try:
        shortest = repr(float(number))
    except OverflowError:
        return "-Infinity" if number < 0 else "Infinity"
    mantissa, _, exponent = shortest.partition("e")
    if exponent and not 1e-6 <= abs(float(number)) < 1e21:  # noqa: PLR2004 - where JavaScript begins to write exponents
        return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"
    plain = format(Decimal(shortest), "f")
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain == "-0" else plain
