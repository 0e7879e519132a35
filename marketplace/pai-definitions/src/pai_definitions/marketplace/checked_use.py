"""A check of definitions in use, by an example job: what they require, and the parameters of plugins."""

from collections.abc import Iterator, Sequence

from pai_definitions.definition import templates
from pai_definitions.job_library import JobLibrary
from pai_definitions.marketplace.job_text import job_lines
from pai_definitions.model import Library
from pai_definitions.reference import Reference
from pai_definitions.template import Template
from pai_document.document import parse_document
from pai_document.problems import Position, Problem, Problems
from pai_runtime.command.jobs import Host, job_plugins, load_job, planned_roles
from pai_runtime.definitions import Definition, DefinitionFile
from pai_task.record import replace

_JOB = "a job that uses it"
"""The name of the example job in the place of a file."""
_OF_VALUES = ("wrong-type", "wrong-value")


class CheckedUse:
    """A check of each definition in an example job, with example values for variables without a default."""

    def __init__(self, definitions: Sequence[Definition], library: Library, host: Host) -> None:
        self._library = library
        self._host = host
        self._plugins = job_plugins(host)
        self._files = {each.file.shown for each in definitions}
        self._made_up = {position for each in definitions for position in _made_up(each)}

    def problems(self, definition: Definition) -> Iterator[Problem]:
        """Yield the problems of a definition and of what it requires, except those of example values."""
        found = Problems()
        with found.caught():
            text = "\n".join(job_lines(definition, f"marketplace://name/{definition.name}", {}))
            library = _Using(definition, self._library)
            job = load_job(
                parse_document(text, _JOB),
                None,
                self._plugins,
                found,
                open_definitions=lambda _: JobLibrary(library),
            )
            planned_roles(job, self._host, found, lenient=True)
        for problem in found.in_order:
            placed = self._placed(problem, definition)
            if placed and not (placed.code in _OF_VALUES and placed.position in self._made_up):
                yield placed

    def _placed(self, problem: Problem, definition: Definition) -> Problem | None:
        """Return a problem at the position that the author knows; None if it is about the example job."""
        if problem.code == "no-such-plugin" and (plugin := definition.value.get("plugin")):
            problem = replace(problem, position=plugin.position)
        at = problem.position
        if at is None or at.file == _JOB:
            here = replace(problem, position=definition.value.position, field="")
            return here if problem.severity == "error" else None
        return replace(problem, position=replace(at, required_by=None)) if at.file in self._files else problem


class _Using:
    """A library for a job in which every reference means one definition; in definitions it is as usual."""

    def __init__(self, definition: Definition, library: Library) -> None:
        self._definition = definition
        self._library = library

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        if above is None:
            return self._definition
        return self._library.find(reference, above, required_by)


def _made_up(definition: Definition) -> Iterator[Position]:
    """Yield the positions at which example values are inserted."""
    required = {each.name for each in definition.variables.values() if each.default is None}
    for value in templates(definition):
        if required.intersection(Template(value.text).names):
            yield value.position
