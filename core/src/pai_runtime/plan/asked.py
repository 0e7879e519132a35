"""The places in a job where its plans' uses of plugins were asked for."""

from pai_runtime.document.problems import Location
from pai_runtime.document.value import walk
from pai_runtime.job.model import Job
from pai_runtime.task.plan import UseRecord


def use_location(job: Job, role: str, use: UseRecord, text: str = "") -> Location:
    """Return the location in the job of a text in a use, such as a storage, or else of the use itself."""
    uses = job.uses[role].uses if role in job.uses else ()
    found = next((each for each in uses if each.name == use.name and str(each.position) == use.source), None)
    if found is None:
        return Location(job.position, job.position, f"use '{use.name}'")
    for value in found.fields.values():
        for path, node in walk(value.node):
            if node.data == text:
                return value.at(path)
    return found.locate(())
