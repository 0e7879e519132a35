"""Names of users, jobs and task roles, as they stand in paths and variables."""

from __future__ import annotations

JOB_ATTEMPT = "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"
"""The variable of a task that has another value in each attempt of its job."""


def framework_name(role: str) -> str:
    """Return a task role's name for FrameworkController, which allows neither capitals nor ``_``."""
    return "".join(letter for letter in role.lower() if letter.isascii() and letter.isalnum())


def with_user_and_job(text: str, user: str, job: str) -> str:
    """Replace ``%USER`` and ``%JOB``, in any case, by the names of the user and the job.

    A name cannot lead to another directory: ``/`` in it becomes ``_``, leading dots are removed, and a name
    of only dots becomes ``_``.
    """
    import re  # noqa: PLC0415 - every process that runs a hook loads this module

    names = {"%USER": user, "%JOB": job}
    return re.sub(
        "%USER|%JOB",
        lambda match: names[match[0].upper()].replace("/", "_").lstrip(".") or "_",
        text,
        flags=re.IGNORECASE,
    )
