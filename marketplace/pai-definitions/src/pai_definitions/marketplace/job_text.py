"""The text of a job that uses a definition, as a person would write it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pai_definitions.marketplace.listing import short
from pai_definitions.marketplace.yaml_line import yaml_line
from pai_document.secret_names import names_secret
from pai_runtime.definitions import Definition, Variable

_EXAMPLES: Final[Mapping[str, Any]] = {
    "integer": 1,
    "number": 1,
    "boolean": False,
    "list": [],
    "mapping": {},
}
_PATH = re.compile("(path|dir|directory|folder|mount)$", re.IGNORECASE)
_URL = re.compile("ur[il]$", re.IGNORECASE)


def job_lines(definition: Definition, reference: str, given: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the job; `given` are values of variables as YAML on one line each."""
    required = [each for each in definition.variables.values() if each.default is None]
    secrets = [each for each in required if names_secret(each.name)]
    parameters = [each for each in required if each not in secrets]
    yield from _heading(definition)
    yield from ("protocolVersion: 2", f"name: {yaml_line(definition.name)}", "type: job")
    yield from _section("parameters", parameters, given, "")
    yield from _section("secrets", secrets, given, ", or give it with --secrets FILE")
    yield from (
        "prerequisites:",
        '  - {name: image, type: dockerimage, uri: "debian:12"}  # your image',
        "taskRoles:",
        "  worker:",
        "    dockerImage: image",
        "    prerequisites:",
        *(f"      {line}" for line in _use(definition, reference, given, [each.name for each in secrets])),
        "    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}",
        "    commands:",
        "      - echo replace this with your command",
    )


def example(variable: Variable) -> Any:
    """Return an example value for a required variable that a plugin hardly refuses."""
    if variable.type in _EXAMPLES:
        return _EXAMPLES[variable.type]
    if _URL.search(variable.name):
        return "https://example.org/CHANGE-ME"
    return "/CHANGE-ME" if _PATH.search(variable.name) else "CHANGE-ME"


def _heading(definition: Definition) -> Iterator[str]:
    about = short(definition.title or definition.summary)
    yield f"# A job that uses {definition.name}" + (f": {about}" if about else "")
    if definition.usage:
        yield "#"
        yield from (f"# {line}".rstrip() for line in definition.usage.splitlines())


def _section(name: str, variables: list[Variable], given: Mapping[str, str], hint: str) -> Iterator[str]:
    if variables:
        yield f"{name}:"
    for each in variables:
        about = [] if each.name in given else [f"required: change it{hint}"]
        about += [short(each.description)] if each.description else []
        yield f"  {each.name}: {given.get(each.name) or yaml_line(example(each))}" + _comment(
            "; ".join(about)
        )


def _use(
    definition: Definition, reference: str, given: Mapping[str, str], secrets: list[str]
) -> Iterator[str]:
    if not definition.variables:
        yield f"- {yaml_line(reference)}"
        return
    is_given = any(each.default is None or each.name in given for each in definition.variables.values())
    yield f"- name: {yaml_line(reference)}"
    yield f"{'' if is_given else '# '}  template_variables:"
    for each in definition.variables.values():
        root = "secrets" if each.name in secrets else "parameters"
        if each.default is None:
            yield f"    {each.name}: <% ${root}.{each.name} %>"
        elif each.name in given:
            yield f"    {each.name}: {given[each.name]}{_comment(short(each.description))}"
        else:
            yield f"    # {each.name}: {yaml_line(each.default.data)}{_comment(short(each.description))}"


def _comment(text: str) -> str:
    return f"  # {text}" if text else ""
