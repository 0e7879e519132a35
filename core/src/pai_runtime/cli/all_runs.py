"""All runs of a user: on this machine, wherever their directories are, and on all profiles."""

import os
from collections.abc import Iterator

from pai_document.problems import InvalidInput
from pai_runtime.cli.found_run import FoundRun
from pai_runtime.cli.given_run import NotThere, engine_for
from pai_runtime.cli.user import user_name
from pai_runtime.engines.profiles import profile_names
from pai_runtime.runs.errors import ClusterError
from pai_runtime.runs.names import RUNS, NoSuchRun
from pai_runtime.runs.noted_folders import noted_folders
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Unreadable
from pai_runtime.terminal.output import report_problems, say


def all_runs() -> tuple[list[FoundRun], bool]:
    """Return the runs, and whether all places could be asked; which ones could not has been reported."""
    found, is_whole = list(_here()), True
    for name in profile_names():
        try:
            found += _of_profile(name)
        except InvalidInput as error:
            report_problems(error.problems)
            is_whole = False
        except (ClusterError, NotThere) as error:
            say(f"{name}: {error}")
            is_whole = False
    return found, is_whole


def _here() -> Iterator[FoundRun]:
    engine = engine_for("ps", None)
    for folder in dict.fromkeys((RUNS.resolve(), *noted_folders())):
        try:
            part = engine.part(str(folder))
        except NoSuchRun:  # there are none here, or they are not for us any more
            continue
        if part is None:
            reader = engine.open_run(str(folder))
            yield FoundRun(reader, reader.run())
        else:
            yield from (FoundRun(*each) for each in part.runs() if _is_own(each[0]))


def _is_own(reader: RunReader) -> bool:
    return reader.folder is not None and reader.folder.stat().st_uid == os.geteuid()


def _of_profile(name: str) -> Iterator[FoundRun]:
    engine = engine_for("ps", name)
    user = engine.user(user_name())
    for reader, run in engine.runs():
        if isinstance(run, Unreadable) or run.user in ("", user):
            yield FoundRun(reader, run)
