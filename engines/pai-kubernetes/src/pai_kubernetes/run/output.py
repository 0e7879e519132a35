"""The output of a run's tasks on a storage of the cluster, for when their pods are gone."""

from dataclasses import replace
from pathlib import Path

from pai_kubernetes.names import is_run_name
from pai_kubernetes.profile import MountedStorage
from pai_pod.engine import kept_output
from pai_runtime.engine import RunTask, Unreadable


class RunOutput:
    """The output of the run `name` on the storage `output`; `uid` is the UID of its JobSet."""

    def __init__(self, output: MountedStorage, name: str, uid: str) -> None:
        self._output = output
        self._name = name
        self._uid = uid

    def attempt(self, task: RunTask, number: int | None) -> kept_output.StoredAttempt | None:
        """Return an attempt of a task, by default the last; None if this machine has none."""
        if not self._output.mounted_at:
            return None
        root, path = Path(self._output.mounted_at), self._path(task)
        last = kept_output.last_attempt(root, path) if number is None else number
        return kept_output.StoredAttempt(root, f"{path}/{last}") if last is not None else None

    def noted(self, task: RunTask) -> RunTask:
        """Return a task whose pod is gone, with the number of its last attempt, and where its output is."""
        path, mounted_at = self._path(task), self._output.mounted_at
        if not mounted_at:
            where = f"on the storage '{self._output.storage.name}', in {path}"
            return replace(task, note=f"its pod is gone; its output is {where}")
        last = kept_output.last_attempt(Path(mounted_at), path)
        if last is None:
            return replace(task, note=f"its pod is gone, and none of its output is in {mounted_at}/{path}")
        note = f"its pod is gone; its output is in {mounted_at}/{path}"
        return replace(task, retries=max(task.retries, last), note=note)

    def _path(self, task: RunTask) -> str:
        return kept_output.task_output_path(self._name, self._uid, task.role, task.index)


def with_place(run: Unreadable, output: MountedStorage | None, name: str) -> Unreadable:
    """Return the error that there is no run of this name, with where there is output of one."""
    if run.is_missing and output is not None and output.mounted_at:
        place = Path(output.mounted_at) / name
        if is_run_name(name) and place.is_dir():
            return replace(run, reason=f"{run.reason}; the output of one is in {place}")
    return run
