"""A run on an OpenPAI cluster: what its REST server says of the job, asked for now and then."""

import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

from pai_network.fields import mapping, mappings, string
from pai_openpai.client.api import Api, job_path
from pai_openpai.client.exit_records import exit_record_in, record_of_log
from pai_openpai.client.fields import number
from pai_openpai.client.job_view import Attempt, Config, JobView, explained, job_view
from pai_openpai.client.log_files import NotNow
from pai_openpai.client.logs import Logs
from pai_openpai.client.names import split_name
from pai_openpai.client.polled import Polled
from pai_openpai.client.variables import known_variables
from pai_runtime.engine import (
    CannotEnter,
    CannotRemove,
    ClusterError,
    LogReader,
    Progress,
    Run,
    RunReader,
    RunTask,
    TaskVariables,
    Unreadable,
)
from pai_runtime.engine.jobs import framework_name
from pai_runtime.engine.messages import RequestError, printable
from pai_runtime.engine.records import MOST_AT_ONCE, LogName

KEEPS: Final = "OpenPAI keeps its jobs; an operator can remove them, and logs are removed after 30 days"

_EVENTS_EVERY: Final = 30.0
_MOST_RECORDS: Final = 20
"""Maximum number of records that are read from logs, since the list of each log takes a request."""
_HOST: Final = re.compile(r"[0-9a-zA-Z][\w.:-]*", re.ASCII)
_PORT: Final = re.compile(r"[0-9]{1,5}")


class OpenpaiRunReader(RunReader):
    """The run of a name: one of the user's own, or ``USER~NAME``."""

    def __init__(self, api: Api, named: str) -> None:
        self.named = named
        self.on = api.profile.name
        self._api = api
        self._say: Callable[[str], None] = lambda _text: None
        self._has_told = False
        self._view: JobView | None = None
        self._seen: Any = None
        self._events_at = -_EVENTS_EVERY
        self._reasons: Mapping[str, str] = {}
        self._records: dict[tuple[str, Attempt | None], Mapping[str, Any]] = {}

    def run(self) -> Run | Unreadable:
        """Return the run as the cluster has shown it last."""
        try:
            return self._look().run
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return Unreadable("there is no such job", is_missing=True)
        except _NoName:
            return Unreadable(f"'{printable(self.named)}' is no name of a run", is_missing=True)

    def progress(self, task: RunTask) -> Progress | None:
        """Return that a task runs; what in it does is not known."""
        if task.state != "running" or task.started is None:
            return None
        return Progress("command", None, task.started)

    def exit_record(self, task: RunTask) -> Mapping[str, Any]:
        """Return the exit record of a task, by its pod or its logs; else what the cluster explains."""
        row = self._look().rows.get(task.name, {})
        if not task.over or task.exit_code is None:
            return {}
        if found := exit_record_in(string(row, "containerExitDiagnostics")):
            return found
        if task.state == "failed" and (found := self._record_of_logs(task)):
            return found
        reason = explained(mapping(row, "containerExitSpec")) if task.exit_code else ""
        return {"exitCode": task.exit_code, **({"reason": reason} if reason else {})}

    def log(self, task: RunTask, log: LogName, attempt: int | None = None) -> LogReader:
        """Return a log from the node of the task."""
        return self._logs.log(task, log, attempt)

    def variables(self, task: RunTask) -> TaskVariables:
        """Return the variables of a task about where the tasks are; its own file cannot be read."""
        user, name = self._names
        return known_variables(self._config, self._look(), task, user, name)

    def cancel(self) -> str:
        """Stop the job. Raises `ClusterError`."""
        stop_job(self._api, *self._names)
        return "its tasks have up to 10 minutes to end"

    def remove(self) -> int | None:
        """Raise `CannotRemove`."""
        raise CannotRemove(KEEPS)

    def exec(self, task: RunTask, argv: Sequence[str]) -> int:
        """Raise `CannotEnter` with the command line of ssh by which people enter a container."""
        row = self._look().rows.get(task.name, {})
        if task.state != "running":
            raise CannotEnter("it is not running")
        if "ssh" not in self._config.plugins():
            raise CannotEnter(
                "the job does not use the plugin ssh, and OpenPAI has no other way into a container; add it"
            )
        host, port = string(row, "containerIp"), string(mapping(row, "containerPorts"), "ssh")
        if not _HOST.fullmatch(host) or not _PORT.fullmatch(port):
            raise CannotEnter("the cluster does not say where its ssh is")
        remote = [shlex.join(argv)] if argv else []  # a shell there reads what ssh sends
        line = shlex.join(["ssh", "-p", port, f"root@{host}", *remote])
        raise CannotEnter(f"OpenPAI lets people enter a container by ssh alone: {line}")

    def follow(self, say: Callable[[str], None]) -> None:
        """Read logs in threads, for as long as the run is followed."""
        self._say = say
        self._logs.follow()

    def wait(self, seconds: float) -> None:
        """Sleep, and say once which output is not shown."""
        if (left := len(self._logs.at_once.left_out)) and not self._has_told:
            self._has_told = True
            logs = shlex.join(["pai-runtime", "logs", self.named, "--on", self.on])
            self._say(
                f"the output of {left} tasks is not shown, as only {MOST_AT_ONCE} are read at once;"
                f" for one of them: {logs} TASK"
            )
        time.sleep(seconds)

    def is_away(self) -> bool:
        """Return whether the cluster did not answer when it was last asked."""
        return self._polled.failures > 0

    def is_settled(self) -> bool:
        """Return whether all output has been read."""
        return not self._logs.is_more_to_come()

    def close(self) -> None:
        """End the reading of logs."""
        self._logs.close()

    @cached_property
    def _names(self) -> tuple[str, str]:
        found = split_name(self.named, "" if "~" in self.named else self._api.user)
        if found is None:
            raise _NoName
        return found

    @cached_property
    def _polled(self) -> Polled:
        return Polled(self._api, job_path(*self._names), f"read the job {self.named}")

    @cached_property
    def _config(self) -> Config:
        found = self._api.get(
            job_path(*self._names, "config"), what=f"read the configuration of {self.named}"
        )
        return Config(found if isinstance(found, dict) else {})

    @cached_property
    def _logs(self) -> Logs:
        return Logs(self._api, *self._names, self._seen_view)

    def _record_of_logs(self, task: RunTask) -> Mapping[str, Any]:
        """Return the exit record among the logs of an attempt of a task, which are asked for it once."""
        key = task.name, self._look().attempt(task.name)
        if key not in self._records and len(self._records) < _MOST_RECORDS:
            with suppress(NotNow):
                self._records[key] = record_of_log(self._logs.record(task))
        return self._records.get(key, {})

    def _seen_view(self) -> JobView:
        return self._view or self._look()

    def _look(self) -> JobView:
        """Return the job, read anew if something is known that was not at the last look."""
        if self._view is not None and self._view.run.over:
            return self._view
        detail = self._polled.document()
        has_new_reasons = self._view is not None and self._ask_why(self._view)
        if self._view is None or detail is not self._seen or has_new_reasons:
            self._view, self._seen = job_view(detail, self._config, self._reasons), detail
            if self._ask_why(self._view):
                self._view = job_view(detail, self._config, self._reasons)
        return self._view

    def _ask_why(self, view: JobView) -> bool:
        """Ask why tasks wait, now and then; return whether something new was said."""
        now = time.monotonic()
        waits = any(task.state == "waiting" for task in view.run.tasks) and not view.run.over
        if not waits or now < self._events_at + _EVENTS_EVERY or self._api.room() <= 0:
            return False
        self._events_at = now
        before = self._reasons
        try:
            path = job_path(*self._names, "events")
            found = self._api.once(path, what=f"read the events of {self.named}", type="Warning")
        except RequestError:
            return False
        written = self._config.roles()
        reasons: dict[str, str] = {}
        for each in mappings(found, "data"):  # newest first
            role, index = string(each, "taskroleName"), number(each, "taskIndex")
            why = ": ".join(filter(None, (string(each, "reason"), string(each, "message"))))
            reasons.setdefault(f"{written.get(framework_name(role), role)}/{index}", why)
        self._reasons = reasons
        return reasons != before


class _NoName(ClusterError):
    """The exception for what cannot be the name of a run."""


def stop_job(api: Api, user: str, name: str) -> None:
    """Tell the cluster to stop a job. Raises `RequestError`."""
    api.put(job_path(user, name, "executionType"), {"value": "STOP"}, what=f"stop {name}")
