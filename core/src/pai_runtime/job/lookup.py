"""Looking up the definitions that references mean; what is wrong is reported where these stand."""

from collections.abc import Iterable

from pai_runtime.definitions.model import Definition, DefinitionFile, Library, NoDefinition
from pai_runtime.definitions.reference import BadReference, parse_reference
from pai_runtime.document.problems import InvalidInput, Problem, Problems
from pai_runtime.document.value import Value
from pai_runtime.network.url import shown_text


class Lookup:
    """Finds what references mean in a library; there is none where nobody said where to look for anything."""

    def __init__(self, library: Library | None, problems: Problems) -> None:
        self._library = library
        self._problems = problems

    def find(self, name: Value, above: DefinitionFile | None) -> Definition | None:
        """What a name means in the file `above` of a definition, or in the job; None, if it is wrong."""
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
