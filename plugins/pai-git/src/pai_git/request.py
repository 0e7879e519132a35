"""The parameters of a use, checked beyond their schema."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from pai_runtime.plugin import UserError

FLAGS = frozenset(
    {
        "-4",
        "-6",
        "-l",
        "-n",
        "-q",
        "-v",
        "--also-filter-submodules",
        "--bare",
        "--ipv4",
        "--ipv6",
        "--local",
        "--mirror",
        "--no-checkout",
        "--no-hardlinks",
        "--no-local",
        "--no-progress",
        "--no-reject-shallow",
        "--no-remote-submodules",
        "--no-shallow-submodules",
        "--no-single-branch",
        "--no-tags",
        "--progress",
        "--quiet",
        "--recurse-submodules",
        "--recursive",
        "--reject-shallow",
        "--remote-submodules",
        "--shallow-submodules",
        "--single-branch",
        "--sparse",
        "--verbose",
    }
)
WITH_VALUE = frozenset(
    {
        "-b",
        "-j",
        "-o",
        "--branch",
        "--depth",
        "--filter",
        "--jobs",
        "--origin",
        "--server-option",
        "--shallow-exclude",
        "--shallow-since",
    }
)
WITH_VALUE_OR_NOT = frozenset(["--recurse-submodules", "--recursive"])
"""Options with an optional value, which is given after ``=`` only."""


@dataclass(frozen=True)
class Request:
    """The request to clone `uri` with `options` of ``git clone``; `ref` None means the default branch.

    `clone_dir` is absolute, or relative to the task's working directory; None leaves it to the plugin.
    `retry_seconds` is for how long after a first transient failure the clone is retried.
    """

    uri: str
    options: tuple[str, ...]
    ref: str | None
    depth: int | None
    submodules: bool
    clone_dir: PurePath | None
    retry_seconds: float

    @property
    def identity(self) -> str:
        """A text that is equal for requests of the same clone."""
        return json.dumps([self.uri, self.options, self.ref, self.depth, self.submodules])


def read_request(parameters: Mapping[str, Any]) -> Request:
    """Return the request in parameters that match the manifest's schema.

    Raises `UserError` if they are invalid.
    """
    for name, value in parameters.items():
        # The placeholder of a secret has one; and no program can be given it.
        if name != "token" and any("\0" in text for text in _texts(value)):
            raise UserError(f"{name} contains a secret, which other processes would see; use token")
    _check_uri(parameters["repo_uri"], with_token="token" in parameters)
    return Request(
        uri=parameters["repo_uri"],
        options=_options(parameters.get("options", ())),
        ref=parameters.get("ref"),
        depth=parameters.get("depth"),
        submodules=parameters.get("submodules", False),
        clone_dir=PurePath(parameters["clone_dir"]) if "clone_dir" in parameters else None,
        retry_seconds=60 * parameters.get("retry_minutes", 10),
    )


def _texts(value: Any) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]


def _check_uri(uri: str, *, with_token: bool) -> None:
    try:
        parts = urlsplit(uri)
        password = parts.password
    except ValueError as error:
        raise UserError(f"repo_uri is not a URL: {error}") from None
    if password is not None:
        raise UserError("repo_uri contains a password, which other processes would see; use token")
    if parts.query and parts.scheme in ("http", "https"):
        raise UserError("repo_uri contains a query, which other processes would see; use token")
    if with_token and parts.scheme not in ("http", "https"):
        raise UserError("token is for repositories at https:// (or http://), and repo_uri is not")


def _options(given: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the options; an item may hold several, as on a command line. Raises `UserError`."""
    try:
        words = shlex.split(" ".join(given))
    except ValueError as error:
        raise UserError(f"options are not a valid command line: {error}") from None
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if word in FLAGS or (equals and name in WITH_VALUE_OR_NOT):
            continue
        if (equals and name.startswith("--") and name in WITH_VALUE) or (word[:2] in WITH_VALUE and word[2:]):
            continue
        if word not in WITH_VALUE:
            known = " ".join(sorted(FLAGS | WITH_VALUE))
            raise UserError(f"the option '{name}' is not allowed; allowed are {known}")
        if next(rest, None) is None:
            raise UserError(f"the option '{word}' needs a value")
    return tuple(words)
