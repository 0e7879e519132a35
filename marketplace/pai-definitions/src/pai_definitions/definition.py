"""Reading of definition files, with all of their problems at once."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pai_definitions.template import RESERVED, Template, WrongTemplate, has_template
from pai_definitions.unquoted import parse_unquoted
from pai_definitions.variables import type_fault
from pai_document.document import decoded
from pai_document.problems import (
    MOST_LOOKED_FOR,
    InvalidInput,
    Position,
    Problem,
    Problems,
    Suggestions,
    bounded,
    listed,
    near_miss,
    unexpected,
)
from pai_document.schemas import check, package_schema
from pai_document.value import Source, Value
from pai_runtime.definitions import Definition, DefinitionFile, Variable
from pai_task.record import replace

ABOUT: Final = frozenset(
    {"template_variables", "title", "summary", "usage", "description", "contributor", "tags"}
)
"""Fields that describe a definition and that a job does not need."""

_LITERAL: Final = frozenset({"name", "type", "version", "plugin", "protocolVersion"})
"""Fields that are no templates: what a definition is does not depend on its variables."""

_LONGEST_SHOWN = 100
_MOST_WORK = 100_000
_NO_TEMPLATE = "expected text without '{{' and '{%'"


def read_definitions(file: DefinitionFile, required_by: Position | None = None) -> Sequence[Definition]:
    """Read the definitions in a file. Raises `InvalidInput`; positions have this `required_by`."""
    source = Source(file.shown, decoded(file.content, file.shown, required_by), required_by)
    root = parse_unquoted(source)
    values = list(root.values()) if isinstance(root.data, list) else [root]
    if not values:
        raise InvalidInput([root.problem("empty", "expected at least one definition, found an empty list")])
    reader = _Reader(file)
    for value in values:
        reader.read(value)
        if len(reader.problems) > MOST_LOOKED_FOR:
            break
    if reader.problems:
        raise InvalidInput(bounded(reader.problems, root.position))
    return tuple(reader.definitions.values())


class _Reader:
    """A reader of the definitions of one file, one after the other."""

    def __init__(self, file: DefinitionFile) -> None:
        self.definitions: dict[tuple[str, str, str], Definition] = {}
        self.problems: list[Problem] = []
        self._file = file
        self._work = 0

    def read(self, value: Value) -> None:
        """Read the next definition of the file, and collect its problems."""
        if not isinstance(value.data, dict):
            self.problems.append(_no_mapping(value))
            return
        problems = Problems()
        check_fields(value, _decided(value.data), problems)
        self._add(_definition(value, self._file, problems), problems)
        self.problems += problems.in_order

    def _add(self, definition: Definition, problems: Problems) -> None:
        problems.add(*_both_parameters(definition.value))
        variables: list[Problem] = []
        if definition.value.get("template_variables") is None:
            variables = [each for each in misspelt(definition) if each.suggestion == "template_variables"]
            problems.add(*(replace(each, severity="error") for each in variables))
        for part in _rendered_parts(definition.value):
            if has_template(part.key):
                message = f"a key cannot be a template; {_NO_TEMPLATE}"
                problems.add(Problem("wrong-template", message, part.key_position, part.field))
            if has_template(part.data) and not variables:
                problems.add(*self._template_problems(part, definition, problems.suggestions))
        key = (definition.name, definition.kind, definition.version)
        first = self.definitions.setdefault(key, definition)
        if first is not definition and definition.name:
            name = definition.value.get("name") or definition.value
            problems.add(_second(name, "definition", first.value))

    def _template_problems(
        self, value: Value, definition: Definition, suggestions: Suggestions
    ) -> Iterator[Problem]:
        """Yield what is wrong with a template, whatever the values of variables."""
        if _is_literal(value, definition.value):
            yield value.problem("wrong-template", f"this cannot depend on template variables; {_NO_TEMPLATE}")
            return
        try:
            template = Template(value.text)
            self._count(template, value)
            names = template.names
        except WrongTemplate as error:
            yield wrong_template(definition, value, str(error))
            return
        for name in names:
            if name not in definition.variables:
                known = listed(list(definition.variables)) or "none"
                yield Problem(
                    "wrong-template",
                    f"'{definition.name}' declares no template variable '{name}'; it declares {known}",
                    _position_of(name, value),
                    value.field,
                    found=f"'{name}'",
                    suggestion=suggestions.near_miss(name, definition.variables),
                )

    def _count(self, template: Template, value: Value) -> None:
        self._work += template.work
        if self._work > _MOST_WORK:
            message = (
                "too many expressions in this file are more than names; expected fewer, or several files"
            )
            raise InvalidInput([value.problem("too-many-expressions", message)])


def check_fields(definition: Value, data: Any, problems: Problems) -> None:
    """Validate the fields of a definition, whose data is given separately."""
    check(data, package_schema("pai_definitions", "definition.schema.json"), problems, definition.at)


def _no_mapping(value: Value) -> Problem:
    """Return the problem of something that is no definition, without quoting it: it may be any file."""
    from pai_document.mistakes import missing_space  # noqa: PLC0415 - most is valid

    expected = "a definition of a shared prerequisite, a mapping"
    found = "a list" if isinstance(value.data, list) else "a single value"
    why, _ = missing_space(value.data) if isinstance(value.data, str) else ("", None)
    message = f"{unexpected(expected, found)}: {why}" if why else unexpected(expected, found)
    return value.problem("wrong-type", message, found=found, expected=expected)


def _decided(data: Any) -> Any:
    """Return a definition without the fields that only rendering can determine."""
    if not isinstance(data, dict):
        return data
    return {name: each for name, each in data.items() if name in _LITERAL or not has_template(each)}


def misspelt(definition: Definition) -> Iterator[Problem]:
    """Warn of fields that look like known ones; other fields are allowed, for `this` and for plugins."""
    known = package_schema("pai_definitions", "definition.schema.json")["properties"]
    for field in definition.value.values():
        name = str(field.key)
        if name not in known and (meant := near_miss(name, known)):
            message, found = f"'{name}' is no field of a definition", f"'{name}'"
            yield field.problem(
                "unknown-field", message, found, suggestion=meant, severity="warning", at_key=True
            )


def unused_variables(definition: Definition) -> Sequence[Variable]:
    """Return the variables that a definition declares and does not use."""
    used = {name for value in templates(definition) for name in Template(value.text).names}
    return [variable for variable in definition.variables.values() if variable.name not in used]


def templates(definition: Definition) -> Iterator[Value]:
    """Yield the texts of a definition that are templates."""
    return (part for part in _rendered_parts(definition.value) if has_template(part.data))


def _rendered_parts(definition: Value) -> Iterator[Value]:
    """Yield all values of a definition except those that only describe it."""
    for field in definition.values():
        if field.key not in ABOUT:
            yield from _parts(field)


def _parts(value: Value) -> Sequence[Value]:
    """Return a value and everything below it."""
    parts = [value]
    for part in parts:
        parts += part.values()
    return parts


def _definition(value: Value, file: DefinitionFile, problems: Problems) -> Definition:
    return Definition(
        name=_text(value, "name"),
        kind=_text(value, "type"),
        version=_text(value, "version"),
        title=_text(value, "title"),
        summary=_text(value, "summary"),
        usage=_text(value, "usage"),
        variables=_variables(value, problems),
        value=value,
        file=file,
    )


def _variables(definition: Value, problems: Problems) -> dict[str, Variable]:
    declared = definition.get("template_variables")
    found: dict[str, Variable] = {}
    for value in declared.values() if declared and isinstance(declared.data, list) else ():
        name = value if isinstance(value.data, str) else value.get("name")
        if name is None or not isinstance(name.data, str):
            continue  # the schema has refused it
        default = value.get("default")
        variable = Variable(name.text, _text(value, "type"), _text(value, "description"), default, value)
        first = found.setdefault(name.text, variable)
        if first is not variable:
            problems.add(_second(name, "template variable", first.value))
        if name.text in RESERVED:
            message = f"'{name.text}' has a meaning of its own in templates; expected another name"
            problems.add(name.problem("wrong-name", message, found=f"'{name.text}'"))
        if default is not None:
            problems.add(*_default_problems(variable, default))
    return found


def _default_problems(variable: Variable, default: Value) -> Iterator[Problem]:
    fault = type_fault(default.data, variable.type)
    if fault:
        expected, found = fault
        message = f"expected {expected} as the default of '{variable.name}', found {found}"
        yield default.problem("wrong-variable", message, found, expected)
    for value in filter(lambda part: has_template(part.data), _parts(default)):
        yield value.problem("wrong-template", "the default of a variable is a value, and no template")


def _both_parameters(definition: Value) -> Iterator[Problem]:
    second = definition.get("parameters")
    if second and definition.get("plugin_params"):
        message = "'parameters' is another name of 'plugin_params'; expected only one of them"
        yield second.problem("duplicate-field", message, at_key=True)


def wrong_template(definition: Definition, template: Value, why: str) -> Problem:
    """Return the problem that a template of a definition cannot be rendered."""
    shown = f" '{template.text}'" if len(template.text) <= _LONGEST_SHOWN else ""
    message = f"cannot render the template{shown} of '{definition.name}': {why}"
    return template.problem("wrong-template", message)


def _is_literal(value: Value, definition: Value) -> bool:
    """Return whether a value identifies the definition, or what it requires."""
    match value.path[len(definition.path) :]:
        case (str() as field,):
            return field in _LITERAL
        case ("require", int()) | ("require", int(), "name"):
            return True
    return False


def _position_of(name: str, template: Value) -> Position:
    """Return the position of a variable's name in a template, or of the template if it is not found."""
    node = template.node
    match = re.compile(rf"\{{[{{%][^{{}}]*?\b{name}\b").search(node.source.text, node.start, node.end)
    return node.source.position(match.end() - len(name)) if match else template.position


def _second(name: Value, what: str, first: Value) -> Problem:
    message = f"duplicate name '{name.text}' of a {what}; the first one is at {first.position}"
    return name.problem("duplicate-name", message, found=f"'{name.text}'")


def _text(value: Value, field: str) -> str:
    """Return a field as written; empty if it is missing, a list or a mapping."""
    child = value.get(field)
    return child.text if child else ""
