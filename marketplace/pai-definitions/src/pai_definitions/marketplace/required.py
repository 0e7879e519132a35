"""The tree of what a definition requires."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pai_definitions.model import Library
from pai_definitions.reference import BadReference, parse_reference
from pai_document.problems import InvalidInput
from pai_document.value import Value
from pai_runtime.definitions import Definition, NoDefinition
from pai_runtime.host.locations import named
from pai_task.record import record

_DEEPEST: Final = 50
_MOST: Final = 1000
"""Maximum depth and number of nodes of the tree, which is only shown."""


@record(frozen=True)
class Required:
    """One entry of a definition's ``require``, with what that definition requires in turn.

    `variables` are given to it, as written. `problem` says why it is not available, or not followed further.
    """

    reference: str
    variables: Any
    problem: str
    below: "Sequence[Required]" = ()


class RequiredTree:
    """A tree of what definitions require; each definition is followed once."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._seen: set[tuple[str, str, str]] = set()
        self._left = _MOST

    def of(self, definition: Definition, depth: int = 0) -> list[Required]:
        """Return what a definition requires."""
        self._seen.add(_key(definition))
        entries = definition.value.get("require")
        return [self._entry(each, definition, depth) for each in entries.values()] if entries else []

    def _entry(self, entry: Value, above: Definition, depth: int) -> Required:
        name = entry.get("name") or entry
        variables = entry.get("template_variables") if isinstance(entry.data, dict) else None
        text, given = named(str(name.data)), variables.data if variables else {}
        self._left -= 1
        if self._left < 0 or depth == _DEEPEST:
            return Required(text, given, "not followed further")
        try:
            found = self._library.find(parse_reference(str(name.data)), above.file, name.position)
        except (NoDefinition, BadReference) as error:
            return Required(text, given, f"{error}")
        except InvalidInput as error:
            return Required(text, given, f"{error.problems[0]}")
        if _key(found) in self._seen:
            return Required(text, given, "")
        return Required(text, given, "", self.of(found, depth + 1))


def _key(definition: Definition) -> tuple[str, str, str]:
    return definition.file.origin, definition.kind, definition.name


def tree_lines(tree: Sequence[Required], indent: str) -> Iterator[str]:
    """Yield the tree as lines of text."""
    for each in tree:
        given = each.variables.items() if isinstance(each.variables, dict) else ()
        variables = ", ".join(f"{name}: {value}" for name, value in given)
        yield f"{indent}{each.reference}{f' ({variables})' if variables else ''}"
        if each.problem:
            yield f"{indent}  {each.problem}"
        yield from tree_lines(each.below, f"{indent}  ")


def tree_json(tree: Sequence[Required]) -> list[dict[str, Any]]:
    """Return the tree as JSON objects."""
    return [
        {
            "reference": each.reference,
            "templateVariables": each.variables,
            "problem": each.problem or None,
            "requires": tree_json(each.below),
        }
        for each in tree
    ]
