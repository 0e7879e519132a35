"""``pai-runtime marketplace check``: checks definition files, for their authors."""

import argparse
from collections.abc import Iterator, Sequence

from pai_definitions.definition import misspelt, read_definitions, unused_variables
from pai_definitions.marketplace.checked_files import CheckedFiles
from pai_definitions.marketplace.checked_use import CheckedUse
from pai_definitions.marketplace.sources import given_sources
from pai_document.amounts import counted
from pai_document.problems import Problem, Problems, errors, stricter, validity
from pai_runtime.command.output import report, report_problems, write_json, write_lines
from pai_runtime.definitions import Definition, DefinitionFile
from pai_task.exit_codes import INVALID
from pai_task.record import replace


def main(args: argparse.Namespace) -> int:
    """Return exit status 0 if all files are valid, 1 if one is not.

    Raises `NoDefinition` if there is none.
    """
    sources, problems = given_sources(args), Problems()
    checked = CheckedFiles(args.paths)
    files = checked.files(problems)
    definitions = list(_definitions(files, problems))
    problems.add(*_seconds(definitions))
    use = CheckedUse(definitions, sources.library(checked.sources), sources.host)
    for definition in definitions:
        problems.add(*_unused(definition), *misspelt(definition), *use.problems(definition))
    found = problems.in_order
    if args.strict:
        found = tuple(map(stricter, found))
    amount = (
        f"{counted(len(definitions), 'definition', 'definitions')} in {counted(len(files), 'file', 'files')}"
    )
    if args.json:
        write_json({**validity(found), "files": len(files), "definitions": len(definitions)})
    else:
        _report(found, amount)
    return INVALID if errors(found) else 0


def _report(problems: Sequence[Problem], amount: str) -> None:
    report_problems(problems)
    if wrong := len(errors(problems)):
        report(f"{counted(wrong, 'error', 'errors')} in {amount}")
    else:
        write_lines([f"OK: {amount}"])


def _definitions(files: Sequence[DefinitionFile], problems: Problems) -> Iterator[Definition]:
    for file in files:
        with problems.caught():
            yield from read_definitions(file)


def _seconds(definitions: Sequence[Definition]) -> Iterator[Problem]:
    """Yield a problem for each definition that another file has too; in one file it is an error already."""
    first: dict[tuple[str, str, str], Definition] = {}
    for each in definitions:
        other = first.setdefault((each.name, each.kind, each.version), each)
        if other is not each:
            name = each.value.get("name") or each.value
            message = (
                f"'{each.name}' is defined in {other.value.position} too, with the same type and version"
            )
            yield name.problem("duplicate-name", message, found=f"'{each.name}'")


def _unused(definition: Definition) -> Iterator[Problem]:
    for variable in unused_variables(definition):
        message = f"the template variable '{variable.name}' of '{definition.name}' is used nowhere"
        yield replace(variable.value.problem("unused-variable", message), severity="warning")
