"""What is wrong with a job for an OpenPAI cluster, as far as the job and the engine profile tell."""

from collections.abc import Collection
from typing import Final

from pai_openpai.first_runtime import PLUGINS, check_for_first_runtime
from pai_openpai.ignored_fields import ignored_fields
from pai_openpai.submitted_job import PLUGIN_LIST, is_of_storage
from pai_runtime.engine import Job, Problems
from pai_runtime.engine.messages import listed, near_miss

_CMD: Final = "cmd"
"""The plugin whose commands are a user's own."""


def check_submission(
    job: Job,
    problems: Problems,
    *,
    is_first_runtime: bool = False,
    plugins: Collection[str] | None = None,
) -> None:
    """Report what OpenPAI would ignore of a job, and what the runtime of its pods cannot do.

    `is_first_runtime` says that pods there have OpenPAI's own runtime. `plugins` are the short names or ids
    of those that the runtime there has; None for the usual ones. `submitted_text` reports the rest.
    """
    problems.add(*ignored_fields(job.value))
    if job.variables:
        message = "OpenPAI takes no variables with a job; use parameters, or export them in its commands"
        where = job.value.at(("extras", "environment"))
        problems.add(where.problem("variables-not-taken", message, found=", ".join(job.variables)))
    known = None if plugins is None else {_short(name) for name in plugins}
    if is_first_runtime:
        check_for_first_runtime(job, problems, PLUGINS if known is None else known)
    elif known is not None:
        _check_plugins(job, known, problems)


def warn_of_code(job: Job, problems: Problems, *, is_stored: bool) -> None:
    """Report what people should know about the code of a job, which is on a storage, or in the job itself."""
    where = job.code or job.value.at(("extras", "code"))
    if not is_stored:
        message = (
            "all users of the cluster can read this code, as it is part of the submitted job; an operator can"
            " name a storage for code in the profile"
        )
        problems.add(where.problem("code-shown", message, severity="warning"))
    uses = (use for role in job.roles for use in job.uses[role].uses if _short(use.plugin) == _CMD)
    if names := list(dict.fromkeys(f"'{use.name}'" for use in uses)):
        message = (
            "on OpenPAI, the code is unpacked only when the commands of the task role start: the commands of"
            f" {listed(names)} do not start in its directory, and those that run earlier have no code"
        )
        problems.add(where.problem("code-in-commands-only", message, severity="warning"))


def _short(plugin: str) -> str:
    return plugin.removeprefix(f"{PLUGIN_LIST}.")


def _check_plugins(job: Job, known: Collection[str], problems: Problems) -> None:
    for role in job.roles:
        for use in job.uses[role].uses:
            short = _short(use.plugin)
            if short not in known and not is_of_storage(use.value):
                message = (
                    f"the runtime of this cluster has no plugin '{short}'; it has {listed(sorted(known))}"
                )
                meant = near_miss(short, known)
                where = use.locate(("plugin",))
                problems.add(where.problem("no-such-plugin", message, found=f"'{short}'", suggestion=meant))
