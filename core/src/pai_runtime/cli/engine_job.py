"""A job that is to run on an engine, with its plans."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pai_document.problems import InvalidInput, Problems
from pai_document.value import Value
from pai_runtime.cli.chosen_tasks import chosen_tasks
from pai_runtime.cli.overrides import given_overrides
from pai_runtime.cli.user import user_name
from pai_runtime.engines.code import Code, find_code
from pai_runtime.engines.hidden import hide
from pai_runtime.engines.interface import Engine, NewRun, RunRequest
from pai_runtime.host.host import Host
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.model import Job
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.terminal.output import say
from pai_task.plan import Plan


class EngineJob:
    """A job, its new run as the command line requests it, and the plans of its tasks.

    Faults are added to `problems`. Raises `InvalidInput` if one is an error, `NoSuchTask`, and `CannotRun`;
    nothing is left then. `options` are the values of the engine's own options.
    """

    job: Job
    run: NewRun
    code: Code | None
    plans: dict[TaskName, Plan]

    def __init__(
        self,
        path: Path,
        args: argparse.Namespace,
        engine: Engine,
        problems: Problems,
        *,
        options: Mapping[str, Any] | None = None,
        tasks: Sequence[tuple[str, int | None]] = (),
        prints_output: bool = False,
    ) -> None:
        # That of the engine, if it has been found: a host reads the manifest of each plugin.
        host: Host = getattr(args, "host", None) or given_host(args.policy)
        self._args = args
        self._engine = engine
        self._options = options or {}
        self._prints_output = prints_output
        self._definitions = JobDefinitions(host, path)
        strict = getattr(args, "strict_callbacks", False)
        self._overrides = given_overrides(args, strict_callbacks=strict)
        given: Path | Value = getattr(args, "document", None) or path
        files = JobFiles(given, args.secrets, self._overrides, self._definitions)
        try:
            planner = plan_job(files, host, self._place, problems, lenient=engine.has_own_plugins)
            self.plans = planner.plans(*chosen_tasks(self.job, tasks))
            problems.check()
        except BaseException:
            if "run" in vars(self):
                self.run.discard()
            raise

    @property
    def secrets(self) -> Mapping[str, str]:
        """The values of the job's secrets, by name."""
        return secret_values(self.job.secrets)

    def _provenance(self, job: Job) -> Mapping[str, Any]:
        """Return what is kept with a run of where it comes from; empty if nothing is to run here."""
        if getattr(self._args, "dry_run", True) or not self._engine.keeps_provenance:
            return {}
        from pai_runtime.cli.provenance import provenance  # noqa: PLC0415 - only what runs is kept

        return provenance(job, self._args, self._overrides)

    def _place(self, job: Job) -> Placement:
        args = self._args
        out: Path | None = getattr(args, "out", None)
        self.job = job
        hide(self.secrets.values())  # before the engine asks any server
        code: Path | None = getattr(args, "code", None)
        if job.code is not None and code is None and not getattr(args, "is_own_job", True):
            message = "is not taken from a job that others may have changed; give the directory by --code DIR"
            raise InvalidInput([job.code.problem("code-not-given", message)])
        self.code = find_code(job, code, [Path(job.file), *filter(None, [args.secrets, out])])
        self.run = self._engine.new_run(
            RunRequest(
                user=user_name(),
                overrides=self._overrides,
                say=say,
                code=self.code,
                definitions=self._definitions.resolved(),
                timeout=getattr(args, "timeout", None),
                out=out,
                options=self._options,
                prints_output=self._prints_output,
                provenance=self._provenance(job),
            )
        )
        return self.run.place(job)
