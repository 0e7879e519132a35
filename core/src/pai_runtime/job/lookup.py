"""Looking up the definitions that a job, and other definitions, refer to; faults are reported where they do."""

from collections.abc import Iterable

from pai_runtime.definitions.definition import read_definitions
from pai_runtime.definitions.model import Definition, DefinitionFile, Library, NoDefinition
from pai_runtime.definitions.reference import BadReference, parse_reference
from pai_runtime.document.problems import InvalidInput, Position, Problem, Problems
from pai_runtime.document.value import Value


class Lookup:
    """Finds what references mean in a library; there is none where nobody said where to look for anything."""

    def __init__(self, library: Library | None, problems: Problems) -> None:
        self._library = library
        self._problems = problems
        self._read: dict[str, dict[str, list[Definition]]] = {}
        self._reported: set[tuple[str, str, str]] = set()

    def find(self, name: Value, above: DefinitionFile | None) -> Definition | None:
        """What a name means in the file `above` of a definition, or in the job; None, if it is wrong."""
        try:
            return self._find(name, above)
        except BadReference as error:
            self._add(name, "wrong-reference", str(error))
        except NoDefinition as error:
            self._add(name, error.code, str(error), error.known)
        except InvalidInput as error:
            self.report(error.problems)
        return None

    def report(self, found: Iterable[Problem]) -> None:
        """Report problems in definitions, each with the first way only by which the job came to it."""
        for problem in found:
            key = problem.code, str(problem.position), problem.text
            if key not in self._reported:
                self._reported.add(key)
                self._problems.add(problem)

    def _find(self, name: Value, above: DefinitionFile | None) -> Definition:
        reference = parse_reference(name.text)
        if reference.kind == "plain" and above is not None:
            beside = self._beside(above, name.text, name.position)
            if len(beside) == 1:
                return beside[0]
            if beside:
                raise NoDefinition("ambiguous-definition", f"{above.shown} has {len(beside)} of this name")
            reference = parse_reference(f"marketplace://name/{name.text}")
        if self._library is None:
            raise NoDefinition("definition-unavailable", "there is nowhere to look for shared prerequisites")
        return self._library.find(reference, above, name.position)

    def _beside(self, file: DefinitionFile, name: str, required_by: Position) -> list[Definition]:
        """The definitions of a name in a file."""
        if file.digest not in self._read:
            by_name = self._read[file.digest] = {}
            for each in read_definitions(file, required_by):
                by_name.setdefault(each.name, []).append(each)
        return self._read[file.digest].get(name, [])

    def _add(self, name: Value, code: str, message: str, known: Iterable[str] = ()) -> None:
        found = f"'{name.text}'"
        suggestion = self._problems.suggestions.near_miss(name.text.rpartition("/")[2], known)
        self._problems.add(
            Problem(
                code,
                f"cannot use {found}: {message}",
                name.position,
                name.field,
                found,
                suggestion=suggestion,
            )
        )
