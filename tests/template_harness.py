"""Definitions in texts, and what they are rendered to."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pai_definitions.definition import read_definitions
from pai_definitions.rendering import rendered
from pai_definitions.template import as_text
from pai_definitions.variables import completed
from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Position, Problem
from pai_document.value import Value
from pai_runtime.definitions import Definition, DefinitionFile, Given

ASKED = Position("job.yaml", 7, 3)


def file_of(content: str | bytes) -> DefinitionFile:
    data = content if isinstance(content, bytes) else content.encode()
    return DefinitionFile("memory:d.yaml", "d.yaml", "/d.yaml", data)


def definitions(content: str | bytes) -> Mapping[str, Definition]:
    return {each.name: each for each in read_definitions(file_of(content), ASKED)}


def definition(content: str) -> Definition:
    (found,) = definitions(content).values()
    return found


def given(**values: Any) -> dict[str, Given]:
    return {name: Given(value, as_text(value), ASKED) for name, value in values.items()}


def written(source: str) -> dict[str, Given]:
    """Values as they are written in YAML."""
    values = parse_document(source, "job.yaml").values()
    return {str(value.key): Given(value.data, value.text, value.position) for value in values}


def render(content: str, values: Mapping[str, Given]) -> Value:
    """The prerequisite that the one definition in a text becomes."""
    found = definition(content)
    asked = parse_document("name: it", "job.yaml")
    return rendered(found, completed(found, values, asked), ASKED)


def problems(call: Callable[[], object]) -> tuple[Problem, ...]:
    with pytest.raises(InvalidInput) as raised:
        call()
    return raised.value.problems


def faults(call: Callable[[], object]) -> list[str]:
    """Where the problems are, and their codes."""
    return [f"{each.position} {each.code}" for each in problems(call)]
