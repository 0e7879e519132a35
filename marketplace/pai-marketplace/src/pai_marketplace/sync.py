"""Import of definitions and jobs from a folder, or a git repository: a group may work by pull requests."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from pai_definitions.definition import read_definitions
from pai_definitions.folder import FolderSource
from pai_document.problems import InvalidInput, Problem, Problems
from pai_marketplace import publishing
from pai_marketplace.database import Database
from pai_marketplace.errors import Invalid, Refused
from pai_marketplace.publishing import Publication
from pai_marketplace.settings import Settings
from pai_marketplace.viewer import OPERATOR
from pai_runtime.definitions import DefinitionFile, NoDefinition
from pai_task.record import record, replace

_SECONDS: Final = 600


@record(frozen=True)
class Synced:
    """What a sync has published, left as it was, and not been able to publish: why, by file."""

    new: int
    same: int
    problems: tuple[str, ...]


def sync(database: Database, settings: Settings, place: str, owner: str = "") -> Synced:
    """Publish all definitions and jobs in a folder, or in the git repository at a URL.

    A job is called as its file is. They belong to `owner`; without one, to the user or group that the first
    directory of their path names. The folder is read as any source of definitions: no link that leads out of
    it is followed.
    """
    with _folder(place) as folder:
        problems = Problems()
        offered = list(_offered(folder, problems))
        texts = [f"{each}" for each in problems.in_order]
        new = same = 0
        for path, publications in offered:
            try:
                for given in publications:
                    mine = replace(given, owner=owner or _first(path), note="synced")
                    with database.writing() as session:
                        is_new = publishing.publish(session, OPERATOR, settings, mine).is_new
                    new, same = new + is_new, same + (not is_new)
            except Refused as error:
                wrong: tuple[Problem, ...] = error.problems if isinstance(error, Invalid) else ()
                texts += [f"{path}: {each}" for each in wrong] or [f"{path}: {error}"]
    return Synced(new, same, tuple(texts))


def _offered(folder: Path, problems: Problems) -> Iterator[tuple[str, Iterator[Publication]]]:
    """Yield what each file has, by its path: first the definitions, which the jobs may require."""
    source = FolderSource("sync", folder)
    try:
        definitions = source.files(problems)
    except NoDefinition as error:
        raise Invalid(f"{error}") from None
    for file in definitions:
        yield file.origin.partition(":")[2], _in_file(file)
    for path, content in source.jobs.items():
        yield path, _job(path, content)


def _in_file(file: DefinitionFile) -> Iterator[Publication]:
    try:
        names = [each.name for each in read_definitions(file)]
    except InvalidInput as error:
        raise Invalid("it is not valid", error.problems) from None
    yield from (Publication("", file.content.decode(), name) for name in names)


def _job(path: str, content: bytes) -> Iterator[Publication]:
    try:
        yield Publication("", content.decode(), PurePosixPath(path).stem)
    except UnicodeDecodeError:
        raise Invalid("it is not UTF-8") from None


def _first(path: str) -> str:
    parts = PurePosixPath(path).parts
    if len(parts) < 2:  # noqa: PLR2004 - a directory and a file
        raise Invalid("it is in no directory that names its owner; give --owner")
    return parts[0]


@contextmanager
def _folder(place: str) -> Iterator[Path]:
    """Return the folder, or a checkout of the repository. Raises `Invalid`."""
    if Path(place).is_dir():
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="pai-marketplace-") as name:
        options = ("-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false")
        argv = [
            "git",
            *options,
            "clone",
            "--quiet",
            "--depth",
            "1",
            "--no-tags",
            "--",
            place,
            f"{name}/checkout",
        ]
        environment = {
            **os.environ,
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
            "GIT_TERMINAL_PROMPT": "0",
        }
        try:
            done = subprocess.run(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Invalid(f"git: {error}") from None
        if done.returncode:
            why = done.stderr.decode("utf-8", "replace").strip()[-1000:]
            raise Invalid(f"{place} is no folder, and cannot be cloned: {why}")
        yield Path(name, "checkout")
