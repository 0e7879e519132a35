"""The images of a job's task roles."""

from collections.abc import Mapping
from typing import Any

from pai_document.problems import Problems
from pai_document.value import Value
from pai_runtime.job.model import Job, TaskRole
from pai_runtime.job.references import References, Renderer
from pai_task.placeholders import fill
from pai_task.record import record


@record(frozen=True)
class JobImage:
    """An image as a job names it: the fields ``uri`` and ``auth`` of its prerequisite, and that itself.

    They may be of any type, and have placeholders in the place of secrets.
    """

    uri: Any
    auth: Any
    value: Value

    def filled(self, secrets: Mapping[str, str]) -> "JobImage":
        """Return the image with the values of secrets, by their paths, in the place of placeholders."""
        return JobImage(fill(self.uri, secrets), fill(self.auth, secrets), self.value)


class JobImages:
    """The images of a job, whose references are resolved when they are needed; faults go to `problems`."""

    def __init__(self, job: Job, problems: Problems) -> None:
        self._references = References(job, problems)
        self._found: dict[str, JobImage | None] = {}

    def of(self, role: TaskRole) -> JobImage | None:
        """Return the image of a role; None if it names none, or none that the job has."""
        if role.docker_image is None:
            return None
        name = role.docker_image.text
        if name not in self._found:
            self._found[name] = self._rendered(name)
        return self._found[name]

    def _rendered(self, name: str) -> JobImage | None:
        prerequisite = self._references.job.prerequisites.get((name, "dockerimage"))
        if prerequisite is None:
            return None
        fields = Renderer(self._references, prerequisite=prerequisite).data(prerequisite.value)
        return JobImage(fields.get("uri"), fields.get("auth"), prerequisite.value) if fields else None
