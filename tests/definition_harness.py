"""Definitions that are in memory, and jobs that require them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pai_definitions.definition import read_definitions
from pai_definitions.job_library import JobLibrary
from pai_definitions.reference import Reference
from pai_document.problems import Position, Problem, Problems
from pai_document.value import Value
from pai_runtime.definitions import Definition, DefinitionFile, NoDefinition
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.load import load_job
from pai_runtime.job.model import Job
from pai_runtime.plan.build import Planner
from pai_runtime.plan.planning import JobFiles, job_plugins, plan_job
from pai_task.plan import Plan
from tests.support import write_job

_PLUGINS = job_plugins(Host(NO_POLICY))


class MemoryLibrary:
    """Finds definitions in texts by the names of their files; `asked` are the references it was asked for."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.asked: list[str] = []
        self._read: dict[str, Sequence[Definition]] = {}
        self.files = {
            name: DefinitionFile(f"memory:{name}", name, f"/definitions/{name}", text.encode())
            for name, text in files.items()
        }

    def find(self, reference: Reference, above: DefinitionFile | None, required_by: Position) -> Definition:
        """See `pai_definitions.model.Library`."""
        self.asked.append(reference.text)
        target = reference.target
        if reference.kind == "plain" and above:
            for each in self._definitions(above, required_by):
                if each.name == target:
                    return each
        if reference.kind not in ("plain", "name"):
            return self._definitions(self.files[target], required_by)[0]
        holds_name = (file for file in self.files.values() if f"name: {target}\n".encode() in file.content)
        for each in (each for file in holds_name for each in self._definitions(file, required_by)):
            if each.name == target and reference.type in ("", each.kind):
                return each
        known = (name.removesuffix(".yaml") for name in self.files)
        raise NoDefinition("no-such-definition", f"no definition is named '{target}'", known)

    def _definitions(self, file: DefinitionFile, required_by: Position) -> Sequence[Definition]:
        if file.origin not in self._read:
            self._read[file.origin] = read_definitions(file, required_by)
        return self._read[file.origin]

    def open(self, secrets: Mapping[str, Value]) -> JobLibrary:
        """See `pai_runtime.definitions.OpenDefinitions`."""
        del secrets
        return JobLibrary(self)


def plan(folder: Path, job: Mapping[str, Any] | str, files: Mapping[str, str] | MemoryLibrary) -> Plan:
    """The plan of the first task of a job that requires what is in these files; raises `InvalidInput`."""
    found = Problems()
    made = next(iter(_planner(folder, job, files, found).plans().values()))
    found.check()
    return made


def loaded(folder: Path, job: Mapping[str, Any] | str, files: Mapping[str, str] | MemoryLibrary) -> Job:
    """Such a job, in which nothing is wrong, without the plans of its tasks."""
    found = Problems()
    library = files if isinstance(files, MemoryLibrary) else MemoryLibrary(files)
    made = load_job(write_job(folder, job), None, _PLUGINS, found, open_definitions=library.open)
    found.check()
    return made


def problems(
    folder: Path, job: Mapping[str, Any] | str, files: Mapping[str, str] | MemoryLibrary
) -> Sequence[Problem]:
    """All that is wrong with such a job, in order."""
    found = Problems()
    with found.caught():
        _planner(folder, job, files, found).plans()
    return found.in_order


def _planner(
    folder: Path, job: Mapping[str, Any] | str, files: Mapping[str, str] | MemoryLibrary, found: Problems
) -> Planner:
    library = files if isinstance(files, MemoryLibrary) else MemoryLibrary(files)
    job_files = JobFiles(write_job(folder, job), open_definitions=library.open)
    return plan_job(job_files, Host(NO_POLICY), lambda job: example_placement(job, "alice"), found)
