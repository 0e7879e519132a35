"""The definitions that the sources list, together."""

from collections.abc import Sequence

from pai_definitions.marketplace.sources import Sources
from pai_definitions.model import DefinitionSource, Listed
from pai_definitions.reference import parse_reference
from pai_document.problems import Position, Problem, Problems, as_warnings
from pai_runtime.definitions import NoDefinition
from pai_task.record import record


@record(frozen=True)
class Found:
    """A definition that a source lists.

    `hidden_by` is an earlier source, which has its name and type too.
    """

    listed: Listed
    source: str
    hidden_by: str = ""


def found_in(sources: Sources, name: str | None, problems: Problems) -> list[Found]:
    """Return the definitions of all sources, or of the source `name`, sorted by name.

    A source that fails is reported as a warning, and the others are listed.
    """
    first: dict[tuple[str, str], str] = {}
    found = []
    for source in sources.chosen(name):
        for listed in _listed(source, sources, problems):
            hidden_by = first.setdefault((listed.name, listed.kind), source.name)
            reference = parse_reference(listed.reference)
            is_hidden = hidden_by != source.name and reference.kind == "name" and not reference.owner
            found.append(Found(listed, source.name, hidden_by if is_hidden else ""))
    return sorted(found, key=lambda each: (each.listed.name.lower(), each.listed.name))


def _listed(source: DefinitionSource, sources: Sources, problems: Problems) -> Sequence[Listed]:
    unsound = Problems()
    listed: Sequence[Listed] = ()
    if reason := sources.host.location_refusal(source.location):
        problems.add(_warning("definition-refused", reason, source))
        return listed
    try:
        with unsound.caught():
            listed = source.list(unsound)
    except NoDefinition as error:
        unsound.add(_warning(error.code, f"{error}", source))
    problems.add(*as_warnings(unsound.in_order))
    return listed


def _warning(code: str, message: str, source: DefinitionSource) -> Problem:
    return Problem(code, message, Position(f"source {source.name}"), severity="warning")
