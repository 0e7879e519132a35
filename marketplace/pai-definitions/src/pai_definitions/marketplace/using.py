"""``pai-runtime marketplace use``: prints a job that uses a definition, or the job that an item is."""

import argparse
from collections.abc import Mapping, Sequence

from pai_definitions.marketplace.given_value import as_written, given_value
from pai_definitions.marketplace.job_text import example, job_lines
from pai_definitions.marketplace.listing import short
from pai_definitions.marketplace.sources import given_reference, given_sources
from pai_definitions.marketplace.yaml_line import yaml_line
from pai_definitions.model import WholeJob
from pai_definitions.variables import completed
from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Position, Problem, Problems
from pai_document.value import Value
from pai_runtime.command.output import report_problems, write_lines
from pai_runtime.definitions import Definition, DefinitionFile, Given
from pai_runtime.host.locations import named
from pai_task.exit_codes import INVALID


def main(args: argparse.Namespace) -> int:
    """Return exit status 0, or 1 if a given variable is unknown or of the wrong type."""
    reference, sources = given_reference(args.reference), given_sources(args)
    try:
        definition = sources.find(reference)
    except WholeJob as error:
        return _print_job(error.file, args.var)
    if definition.file.job:
        return _print_job(definition.file, args.var, f"its data alone is {named(reference.text)}")
    try:
        given = _checked(definition, dict(args.var))
    except InvalidInput as error:
        report_problems(error.problems)
        return INVALID
    write_lines(job_lines(definition, reference.text, given))
    return 0


def _print_job(file: DefinitionFile, given: Sequence[tuple[str, str]], *about: str) -> int:
    """Print the whole job in an item, with what it is about."""
    if given:
        message = (
            "this is a whole job, and has no variables; expected none, and --set of run for its parameters"
        )
        report_problems([Problem("wrong-variable", message, Position(f"--var {given[0][0]}"))])
        return INVALID
    heading = [f"the job of {file.shown}" + (f" by {short(file.author)}" if file.author else ""), *about]
    write_lines([*(f"# {line}" for line in heading), *file.job.splitlines()])
    return 0


def _checked(definition: Definition, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the given values as YAML. Raises `InvalidInput` if the definition does not accept them."""
    problems, values = Problems(), dict[str, Value]()
    for name, text in texts.items():
        with problems.caught():
            values[name] = given_value(text, f"--var {name}")
    problems.check()
    given = {name: Given(each.data, each.text, each.position) for name, each in values.items()}
    asked = parse_document("{}", "--var")
    for variable in definition.variables.values():
        if variable.default is None and variable.name not in given:
            value = example(variable)
            given[variable.name] = Given(value, yaml_line(value), asked.position)
    completed(definition, given, asked)
    return {name: as_written(each) for name, each in values.items()}
