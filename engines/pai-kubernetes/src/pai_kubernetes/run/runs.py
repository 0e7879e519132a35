"""All runs in a namespace, by two requests for the first look, and by two watches for further ones."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from pai_kubernetes.api.client import Api
from pai_kubernetes.api.fields import label, moment, name_of
from pai_kubernetes.api.paths import jobs, jobsets
from pai_kubernetes.api.watch import Watch
from pai_kubernetes.labels import JOBSET_NAME, RUN
from pai_kubernetes.run.listing import listed_run
from pai_kubernetes.run.provenance import read_provenance
from pai_kubernetes.run.state import readable
from pai_kubernetes.run.watched import FIRST_LISTS
from pai_runtime.engine import Run, Unreadable

_Objects = Iterable[Mapping[str, Any]]


class Runs:
    """A reader of all runs in the namespace of `api`.

    `provenance` has what produced those that were read last, by name.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.provenance: Mapping[str, Mapping[str, Any]] = {}
        self._was_asked = False
        self._watches: tuple[Watch, Watch] | None = None

    def read(self) -> dict[str, Run | Unreadable]:
        """Return all runs by name, newest first. Raises `ApiError`."""
        if self._was_asked and self._watches is None:
            self._watches = self._watch()
        self._was_asked = True
        found, of_runs = self._list() if self._watches is None else _objects(self._watches)
        self.provenance = {name_of(each): read_provenance(each) for each in found}
        return _runs(found, of_runs)

    def close(self) -> None:
        """Close the watches."""
        _close(self._watches or ())

    def _list(self) -> tuple[_Objects, _Objects]:
        namespace = self._api.namespace
        found = self._api.list(jobsets(namespace), selector=RUN).items
        return found, self._api.list(jobs(namespace), selector=JOBSET_NAME).items if found else ()

    def _watch(self) -> tuple[Watch, Watch]:
        namespace, end = self._api.namespace, time.monotonic() + FIRST_LISTS
        of_jobsets = Watch(self._api, jobsets(namespace), selector=RUN, on_change=_nobody_waits)
        of_jobs = Watch(self._api, jobs(namespace), selector=JOBSET_NAME, on_change=_nobody_waits)
        watches = of_jobsets, of_jobs
        try:
            for watch in watches:
                watch.start()
            for watch in watches:
                watch.wait(max(0.0, end - time.monotonic()))
        except BaseException:
            _close(watches)
            raise
        return watches


def _close(watches: Iterable[Watch]) -> None:
    for watch in watches:
        watch.close()


def _nobody_waits(_kind: str, _document: Mapping[str, Any]) -> None:
    """Ignore a change, which the next call of `read` will show."""


def _objects(watches: Iterable[Watch]) -> Iterable[_Objects]:
    for watch in watches:
        if watch.error is not None:
            raise watch.error
        yield watch.objects.values()


def _runs(found: _Objects, of_runs: _Objects) -> dict[str, Run | Unreadable]:
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for job in of_runs:
        by_run.setdefault(label(job, JOBSET_NAME), []).append(job)
    latest = sorted(found, key=lambda each: moment(each, "metadata", "creationTimestamp") or 0, reverse=True)
    return {
        name_of(each): readable(partial(listed_run, each, by_run.get(name_of(each), ()))) for each in latest
    }
