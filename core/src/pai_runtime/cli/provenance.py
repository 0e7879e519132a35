"""Where a run comes from, as it is kept with the run."""

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pai_document.problems import InvalidInput
from pai_runtime import __version__
from pai_runtime.engines.interface import Option
from pai_runtime.job.model import Job
from pai_runtime.job.overrides import Overrides
from pai_runtime.job.secrets import secret_values
from pai_runtime.job.without_secrets import job_config
from pai_runtime.runs.repository import commit_of
from pai_task.masking import Masks

VERSION = 1

_WITH_CREDENTIALS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"']*[?@][^\s\"']*", re.IGNORECASE)
"""A URL with a user, a password or a query, which may be a signature."""
_MASK = "******"


def provenance(job: Job, args: argparse.Namespace, overrides: Overrides) -> dict[str, Any]:
    """Return what a run that a command line asks for comes from, without values of secrets."""
    masks = Masks(secret_values(job.secrets).values())

    def mask(text: str) -> str:
        return _WITH_CREDENTIALS.sub(_MASK, masks.mask(text))

    commit = commit_of(Path(job.file).absolute().parent)
    return {
        "provenanceVersion": VERSION,
        "runtime": __version__,
        "directory": str(Path.cwd()),
        "arguments": [mask(word) for word in _words(args)],
        "set": {name: mask(value) for name, value in overrides.parameters.items()},
        "instances": dict(overrides.instances),
        "job": _job(job),
        "commit": {"id": commit.id, "dirty": commit.is_dirty} if commit else None,
    }


def _job(job: Job) -> dict[str, Any]:
    """Return the job file's path, and its text if only its section of secrets, which is left out, has any."""
    path = os.path.abspath(job.file)  # noqa: PTH100 - without following links
    try:
        kept = job_config(job)
    except InvalidInput:
        return {"file": path, "digest": None, "text": None}
    is_secret = kept.is_secret or _WITH_CREDENTIALS.search(kept.text)
    return {"file": path, "digest": kept.digest, "text": None if is_secret else kept.text}


def _words(args: argparse.Namespace) -> Iterator[str]:
    """Yield the arguments of ``run`` that matter for a repetition: not where it is, nor how it is shown."""
    yield str(args.job)
    for name, value in args.set:
        yield from ("--set", f"{name}={value}")
    for role, number in args.role_instances:
        yield from ("--role-instances", f"{role}={number}")
    for role, index in args.task:
        yield from ("--task", role if index is None else f"{role}/{index}")
    for name in ("secrets", "policy", "on", "code"):
        if (given := getattr(args, name)) is not None:
            yield from (f"--{name}", str(given))
    if args.timeout is not None:
        yield from ("--timeout", f"{args.timeout}s")
    if args.strict_callbacks:
        yield "--strict-callbacks"
    yield from _engine_words(args.engine_options, vars(args))


def _engine_words(options: Sequence[Option], given: Mapping[str, Any]) -> Iterator[str]:
    for option in options:
        value = given.get(f"option {option.name}")
        if value is True:
            yield f"--{option.name}"
        elif value:
            for each in value if isinstance(value, list) else [value]:
                yield from (
                    f"--{option.name}",
                    "=".join(map(str, each)) if isinstance(each, tuple) else str(each),
                )
