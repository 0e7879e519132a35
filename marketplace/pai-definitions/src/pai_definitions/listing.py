"""Definition files as entries of a source's list."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pai_definitions.definition import read_definitions
from pai_definitions.model import Listed
from pai_document.problems import Problems
from pai_runtime.definitions import Definition, DefinitionFile


def listed_definitions(files: Iterable[DefinitionFile], problems: Problems) -> Sequence[Listed]:
    """Return the definitions in files, sorted by name; invalid files are reported in `problems`."""
    found: list[Definition] = []
    for file in files:
        with problems.caught():
            found += read_definitions(file)
    names = Counter(definition.name for definition in found)
    return [
        Listed(
            reference=_reference(definition, alone=names[definition.name] == 1),
            name=definition.name,
            kind=definition.kind,
            version=definition.version,
            summary=definition.summary,
            author=definition.file.author,
            title=definition.title,
            description=_description(definition),
        )
        for definition in sorted(found, key=lambda each: (each.name, each.version))
    ]


def _reference(definition: Definition, *, alone: bool) -> str:
    kind = definition.kind if not alone and definition.kind in ("data", "script") else "name"
    version = f"@{definition.version}" if not alone and definition.version else ""
    return f"marketplace://{kind}/{definition.name}{version}"


def _description(definition: Definition) -> str:
    value = definition.value.get("description")
    return value.text if value else ""
