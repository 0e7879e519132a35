"""Sources of definitions for tests: folders that are written, and a network that is a table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pai_definitions.folder import FolderSource
from pai_definitions.library import SourceLibrary
from pai_definitions.model import DefinitionSource
from pai_definitions.reference import parse_reference
from pai_definitions.web import Web
from pai_document.problems import InvalidInput, Position
from pai_runtime.definitions import Definition, DefinitionFile, NoDefinition

HERE = Position("job.yaml", 3, 5)


class Network:
    """What is at which URL; it remembers who was asked, with which token."""

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[tuple[str, str | None]] = []

    def get(self, url: str, *, token: str | None = None) -> bytes:
        self.asked.append((url, token))
        if url not in self.answers:
            raise NoDefinition("no-such-definition", url)
        return self.answers[url].encode()


def text(name: str, **fields: str) -> str:
    """A definition file with one definition."""
    lines = [f"name: {name}", *(f"{key}: {value}" for key, value in fields.items())]
    return "\n".join(["plugin: cmd", "plugin_params: {}", *lines]) + "\n"


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    return folder


def folder_source(folder: Path, files: Mapping[str, str], name: str = "team") -> FolderSource:
    folder.mkdir(exist_ok=True)
    return FolderSource(name, write(folder, files))


def library(
    *sources: DefinitionSource,
    network: Network | None = None,
    job: Path | None = None,
    refused: Sequence[str] = (),
) -> SourceLibrary:
    """A library that a policy keeps from using the locations `refused`."""
    refusal = lambda location: "a policy says so" if location in refused else None  # noqa: E731
    return SourceLibrary(sources, Web(network or Network()), refusal, job)


def find(library: SourceLibrary, reference: str, above: DefinitionFile | None = None) -> Definition:
    return library.find(parse_reference(reference), above, HERE)


def code_of(library: SourceLibrary, reference: str, above: DefinitionFile | None = None) -> str:
    """The code of the problem that there is no such definition."""
    with pytest.raises(NoDefinition) as raised:
        find(library, reference, above)
    return raised.value.code


def problems_of(library: SourceLibrary, reference: str) -> Sequence[tuple[str, str]]:
    """The codes of the problems of its file, and the files that they are in."""
    with pytest.raises(InvalidInput) as raised:
        find(library, reference)
    return [(each.code, each.position.file) for each in raised.value.problems if each.position]
