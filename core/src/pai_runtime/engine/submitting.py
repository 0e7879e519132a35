"""A run that is submitted on one machine and supervised on another: what is carried over, in a directory.

The other machine plans the job again, since only there is it known where the tasks are.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Problems
from pai_document.value import Value
from pai_runtime.definitions import RESOLVED
from pai_runtime.engines.code import Code
from pai_runtime.engines.interface import NewRun, RunRequest
from pai_runtime.engines.local.code_copy import copy_code
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.model import Job
from pai_runtime.job.overrides import Overrides
from pai_runtime.job.secrets import secret_texts, secret_values
from pai_runtime.job.without_secrets import job_config
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.runs.errors import CannotRun
from pai_runtime.runs.provenance import PROVENANCE, with_plugins
from pai_runtime.runs.reader import RunReader
from pai_runtime.runs.state import Run
from pai_runtime.terminal.following import follow
from pai_runtime.terminal.output import report, report_problems
from pai_task.exit_codes import CANNOT_RUN
from pai_task.folder import Folder
from pai_task.plan import Plan
from pai_task.record import replace

SECRETS: Final = "secrets.json"
"""The file with the values of the job's secrets, which is there until the run has begun, or has ended."""

_JOB: Final = "job.yaml"
_REQUEST: Final = "request.json"
_CODE: Final = "code"
_MOST_BYTES: Final = 64 * 1024 * 1024
_OWN: Final = 0o600


def write_submission(folder: Folder, job: Job, request: RunRequest, plans: Iterable[Plan]) -> None:
    """Write what the other machine needs into an empty directory of the user's own.

    What is written survives a crash of this process, but not of the file server. Raises OSError, and
    `InvalidInput` if the secrets cannot be taken out of the job's file.
    """
    write = partial(folder.write, mode=_OWN, sync=False)
    file = job_config(job)
    secrets: dict[str, Any] = {"secrets": secret_texts(job.secrets)}
    if file.is_secret:
        secrets["job"] = file.text
    else:
        write(_JOB, file.text)
    if request.definitions:
        write(RESOLVED, request.definitions)
    if request.code is not None:
        with folder.folder(_CODE, make=True) as copy:
            copy_code(request.code, copy)
    asked = {
        "user": request.user,
        "timeout": request.timeout,
        "overrides": request.overrides.to_json(),
        "provenance": dict(request.provenance),
    }
    if request.provenance:
        write(PROVENANCE, json.dumps(with_plugins(request.provenance, plans)))
    write(_REQUEST, json.dumps(asked))
    if file.is_secret or secret_values(job.secrets):
        write(SECRETS, json.dumps(secrets))


def run_submission(
    path: Path,
    out: Path,
    open_run: Callable[[RunRequest], NewRun],
    *,
    keeps_secrets: bool = False,
    only: int | None = None,
) -> int:
    """Run what was submitted in a directory, in the new directory `out`, and return its exit status.

    `open_run` returns the run at its place. What is wrong is reported. With `keeps_secrets` their file stays,
    for another attempt, or for other tasks where this is to run one `only`, by its number in the job.
    """
    try:
        return _run_submission(path, out, open_run, keeps_secrets=keeps_secrets, only=only)
    except InvalidInput as error:
        report_problems(error.problems)
    except (CannotRun, OSError, ValueError) as error:
        report(str(error))
    return CANNOT_RUN


def _run_submission(
    path: Path,
    out: Path,
    open_run: Callable[[RunRequest], NewRun],
    *,
    keeps_secrets: bool,
    only: int | None,
) -> int:
    with Folder.at(path) as folder:
        asked = json.loads(folder.read(_REQUEST, _MOST_BYTES))
        hidden = json.loads(folder.read(SECRETS, _MOST_BYTES)) if folder.exists(SECRETS) else {}
        text = hidden.get("job") or folder.read(_JOB, _MOST_BYTES).decode()
        values = parse_document(json.dumps(hidden.get("secrets", {})), SECRETS)
        overrides = Overrides.from_json(asked["overrides"])
        lock = path / RESOLVED if folder.exists(RESOLVED) else None
        code = Code(path / _CODE) if folder.exists(_CODE) else None
        request = RunRequest(
            user=asked["user"],
            overrides=overrides,
            code=code,
            say=partial(print, flush=True),
            timeout=asked["timeout"],
            out=out,
            provenance=asked["provenance"],
        )
        try:
            reader = _submitted(parse_document(text, str(path / _JOB)), values, lock, request, open_run, only)
        finally:
            if not keeps_secrets:
                folder.unlink(SECRETS)  # whoever needs them has them in memory by now
    return follow(reader, _Said(request.say))[1]


def _submitted(
    document: Value,
    secrets: Value,
    lock: Path | None,
    request: RunRequest,
    open_run: Callable[[RunRequest], NewRun],
    only: int | None,
) -> RunReader:
    host, problems, new = given_host(None), Problems(), list[NewRun]()
    definitions = JobDefinitions(host, None, lock)

    def place(job: Job) -> Any:
        new.append(open_run(replace(request, definitions=definitions.resolved())))
        return new[0].place(job)

    try:
        files = JobFiles(document, secrets, request.overrides, definitions)
        planner = plan_job(files, host, place, problems)
        plans = planner.plans(*([] if only is None else [planner.job.tasks[only]]))
        new[0].check(plans, problems)
        problems.check()
        return new[0].submit(plans, secret_values(planner.job.secrets))
    except (InvalidInput, CannotRun):
        if new:
            new[0].discard()
        raise


class _Said:
    """A view of a run that only says what there is to say: what else there is, is in its directory."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    def show(self, run: Run) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""
