"""The definition files that an author has checked, as sources for the definitions that they require."""

from collections.abc import Sequence
from pathlib import Path

from pai_definitions.folder import FolderSource
from pai_definitions.model import DefinitionSource
from pai_definitions.single_file import FileSource
from pai_document.problems import Problems
from pai_runtime.definitions import DefinitionFile, NoDefinition
from pai_runtime.host.locations import FILE
from pai_task.record import replace


class CheckedFiles:
    """Definition files, given directly or by directory; `sources` has each path as a source."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._folders = {path: FolderSource(_name(path), path) for path in paths if path.is_dir()}
        self._files = {path: FileSource(_name(path), path) for path in paths if not path.is_dir()}
        self.sources: Sequence[DefinitionSource] = [*self._folders.values(), *self._files.values()]

    def files(self, problems: Problems) -> Sequence[DefinitionFile]:
        """Return all files, without duplicates. Raises `NoDefinition` if there is none."""
        found: dict[str, DefinitionFile] = {}
        for path, folder in self._folders.items():
            files = folder.files(problems)
            if not files:
                raise NoDefinition(
                    "no-such-file",
                    f"{path} has no definition files, which end in .yaml or .yml and are not jobs",
                )
            found.update((file.location, file) for file in files)
        for file in self._files.values():
            found.setdefault(file.location, replace(file.file, origin=FILE + file.location))
        return list(found.values())


def _name(path: Path) -> str:
    """Return the name of a path as a source in messages, without colons, which end the name of a source."""
    return str(path).replace(":", "_")
