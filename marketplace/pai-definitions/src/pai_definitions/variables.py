"""Template variables: their declarations, and the values given to them."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from pai_document.problems import InvalidInput, Problem, Suggestions, bounded, listed
from pai_document.value import Value
from pai_runtime.definitions import Definition, Given, Variable

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str, int, float, bool),  # of 2017, what is written is as good a string
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "list": (list,),
    "mapping": (dict,),
}
_WORDS: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "list": "a list",
    "mapping": "a mapping",
}
_FOUND: Final[Mapping[type, str]] = {
    str: "a string",
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}


def completed(definition: Definition, given: Mapping[str, Given], asked: Value) -> Mapping[str, Given]:
    """Return the values of all variables of a definition, in its order. Raises `InvalidInput`.

    `asked` is the reference to the definition: a text, or a mapping with ``template_variables``.
    """
    problems = _problems(definition, given, asked)
    if first := next(problems, None):
        raise InvalidInput(bounded(chain([first], problems), asked.position))
    return {name: _value(variable, given) for name, variable in definition.variables.items()}


def type_fault(data: Any, kind: str) -> tuple[str, str] | None:
    """Return the expected and the found type if data does not fit a variable's type, else None."""
    if kind not in _TYPES or type(data) in _TYPES[kind]:
        return None
    return _WORDS[kind], _FOUND.get(type(data), "nothing")


def _problems(definition: Definition, given: Mapping[str, Given], asked: Value) -> Iterator[Problem]:
    suggestions = Suggestions()
    for name in given:
        variable = definition.variables.get(name)
        fault = variable and type_fault(given[name].data, variable.type)
        if variable is None:
            where = asked.at(("template_variables", name))
            known = listed(list(definition.variables))
            message = f"'{definition.name}' has no template variable '{name}'; "
            yield Problem(
                "unknown-variable",
                message + (f"it has {known}" if known else "it has none"),
                where.key_position,
                where.field,
                found=f"'{name}'",
                suggestion=suggestions.near_miss(name, definition.variables),
            )
        elif fault:
            where = asked.at(("template_variables", name))
            expected, found = fault
            variable_of = f"the template variable '{name}' of '{definition.name}'"
            message = f"expected {expected} for {variable_of}, found {found}"
            yield Problem("wrong-variable", message, where.position, where.field, found, expected)
    for variable in definition.variables.values():
        if variable.name not in given and variable.default is None:
            message = f"'{definition.name}' needs a value for its template variable '{variable.name}'"
            about = ": ".join(filter(None, (_WORDS.get(variable.type), variable.description)))
            expected = f"template_variables: {{{variable.name}: …}}"
            message += f" ({about})" if about else ""
            message += f"; beside its name, write {expected}"
            yield Problem("missing-variable", message, asked.position, asked.field, expected=expected)


def _value(variable: Variable, given: Mapping[str, Given]) -> Given:
    default = variable.default
    if variable.name in given:
        value = given[variable.name]
    else:
        assert default is not None  # noqa: S101 - checked above
        value = Given(default.data, default.text, default.position)
    if variable.type == "string" and not isinstance(value.data, str):
        return Given(value.text, value.text, value.position)
    return value
