"""Lookup of definitions; faults are reported at the reference."""

from collections.abc import Iterable

from pai_runtime.definitions.model import Definition, DefinitionFile, Library, NoDefinition
from pai_runtime.definitions.reference import BadReference, parse_reference
from pai_runtime.document.problems import InvalidInput, Problem, Problems
from pai_runtime.document.value import Value
from pai_runtime.network.url import shown_text


class Lookup:
    """A lookup of definitions in a library, or in none if nobody said where to look."""

    def __init__(self, library: Library | None, problems: Problems) -> None:
        self._library = library
        self._problems = problems

    def find(self, name: Value, above: DefinitionFile | None) -> Definition | None:
        """Return the definition that a name means in the file `above` of a definition, or in the job.

        Reports the fault and returns None if there is no such definition.
        """
        try:
            reference = parse_reference(name.text)
            if self._library is not None:
                return self._library.find(reference, above, name.position)
            self._add(name, "definition-unavailable", "there is nowhere to look for shared prerequisites")
        except BadReference as error:
            self._add(name, "wrong-reference", str(error))
        except NoDefinition as error:
            self._add(name, error.code, str(error), error.known)
        except InvalidInput as error:
            self._problems.add(*error.problems)
        return None

    def _add(self, name: Value, code: str, message: str, known: Iterable[str] = ()) -> None:
        text = shown_text(name.text)
        found, suggestions = f"'{text}'", self._problems.suggestions
        meant = suggestions.near_miss(name.text.rpartition("/")[2], known)
        message = f"cannot use {found}: {message.removeprefix(f'{text}: ')}"
        self._problems.add(Problem(code, message, name.position, name.field, found, suggestion=meant))
