"""Lookup of definitions; faults are reported at the reference."""

from collections.abc import Iterable
from typing import Final

from pai_runtime.definitions import Definition, DefinitionFile, Definitions, NoDefinition
from pai_runtime.document.problems import InvalidInput, Problem, Problems
from pai_runtime.document.value import Value
from pai_runtime.network.url import shown_text

NOWHERE: Final = NoDefinition("definition-unavailable", "there is nowhere to look for shared prerequisites")


class Lookup:
    """A lookup of references in `definitions`, or the reason why there are no definitions."""

    def __init__(self, definitions: Definitions | NoDefinition, problems: Problems) -> None:
        self._definitions = definitions
        self._problems = problems

    def find(self, name: Value, above: DefinitionFile | None) -> Definition | None:
        """Return the definition that a name means in the file `above` of a definition, or in the job.

        Reports the fault and returns None if there is no such definition.
        """
        try:
            if isinstance(self._definitions, NoDefinition):
                raise self._definitions
            return self._definitions.find(name.text, above, name.position)
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
