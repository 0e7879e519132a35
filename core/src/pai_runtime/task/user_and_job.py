"""Paths that differ by user and job: how a storage gives each their own directory."""

from __future__ import annotations


def with_user_and_job(text: str, user: str, job: str) -> str:
    """The text with the names of the user and the job for ``%USER`` and ``%JOB``, in any case.

    A name cannot lead to another directory: ``/`` in it becomes ``_``, and leading dots are left out.
    """
    import re  # noqa: PLC0415 - every process that runs a hook loads this module

    names = {"%USER": user, "%JOB": job}
    return re.sub(
        "%USER|%JOB",
        lambda match: names[match[0].upper()].replace("/", "_").lstrip("."),
        text,
        flags=re.IGNORECASE,
    )
