"""The form of a definition's variables, and the job that is made from what was filled in."""

from collections.abc import Mapping, Sequence
from typing import Final

from pai_definitions.marketplace.given_value import as_written, given_value
from pai_definitions.marketplace.job_text import job_lines
from pai_definitions.marketplace.yaml_line import yaml_line
from pai_definitions.variables import type_fault
from pai_document.document import parse_document
from pai_document.problems import InvalidInput, unexpected
from pai_document.secret_names import names_secret
from pai_document.value import Value
from pai_runtime.definitions import Definition, Variable
from pai_task.record import record

_MANY_LINES: Final = ("list", "mapping")


@record(frozen=True)
class Field:
    """A variable as a field of the form, with the text that was filled in and what is wrong with it.

    `default` is YAML on one line. A secret has no field, since a server of others must not get its value.
    """

    name: str
    type: str
    description: str
    is_required: bool
    default: str
    is_secret: bool
    text: str
    problem: str

    @property
    def has_many_lines(self) -> bool:
        """Whether a value needs room."""
        return self.type in _MANY_LINES


def fields(definition: Definition, texts: Mapping[str, str]) -> Sequence[Field]:
    """Return the fields of a definition's variables, in its order."""
    return [_field(each, texts.get(each.name, "")) for each in definition.variables.values()]


def job_text(definition: Definition, reference: str, filled_in: Sequence[Field]) -> str:
    """Return a job that uses the definition, with those values that are right, and comments on others."""
    given = {
        field.name: as_written(_value(field.type, field.text))
        for field in filled_in
        if field.text and not field.problem and not field.is_secret
    }
    return "\n".join(job_lines(definition, reference, given)) + "\n"


def _field(variable: Variable, text: str) -> Field:
    is_secret = variable.default is None and names_secret(variable.name)
    return Field(
        variable.name,
        variable.type,
        variable.description,
        variable.default is None,
        "" if variable.default is None else yaml_line(variable.default.data),
        is_secret,
        text,
        "" if is_secret or not text else _problem(variable, text),
    )


def _problem(variable: Variable, text: str) -> str:
    try:
        value = _value(variable.type, text)
    except InvalidInput as error:
        return error.problems[0].message
    return unexpected(*fault) if (fault := type_fault(value.data, variable.type)) else ""


def _value(type_: str, text: str) -> Value:
    """Return a value as YAML of any form where one is expected, else as a scalar. Raises `InvalidInput`."""
    where = "the value"
    return parse_document(text, where) if type_ in _MANY_LINES else given_value(text, where)
