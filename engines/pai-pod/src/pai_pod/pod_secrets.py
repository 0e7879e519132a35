"""The secrets of a pod from files that the platform mounts: the job's and the platform's own."""

import hmac
import json
from pathlib import Path
from secrets import token_hex
from typing import Any

from pai_document.document import read_document
from pai_document.problems import InvalidInput
from pai_document.value import Value
from pai_pod.config_files import find_file, read_keys, read_text
from pai_pod.directories import Directories

_FILES = ("secrets.yaml", "secret.yaml")


def job_secrets(directories: Directories) -> Path | Value | None:
    """Return the file, or the document, with the values of the job's secrets; None if nothing is mounted.

    In the job itself they are masked. Raises `InvalidInput`.
    """
    path = find_file((directories.secrets, *directories.configs), *_FILES)
    return path if path is None or path.is_file() else read_keys(path)


def platform_secrets(directories: Directories, attempt: str, tasks: int, asked: set[str]) -> dict[str, str]:
    """Return the platform secrets that plugins have `asked` for and that there are, by name.

    Raises `InvalidInput`.

    ``run``, which all tasks of a run share and nobody else knows, is what an engine has given to all of them,
    or derived from what the platform gives them: the job's ssh key, else the user's token. A job of one task
    has a random one; else there is none, and plugins say so.
    """
    found = _user_secrets(directories)
    known = {name: json.dumps(value) for name, value in found.items()}
    token = find_file((directories.token,), "token")
    if token is not None:
        known["token"] = read_text(token).strip()
    if isinstance(given := found.get("run"), str):
        known["run"] = given
    elif "run" in asked:
        shared = known.get("jobSSH") or known.get("token")
        if shared:
            run = f"pai-runtime run {attempt}"
            known["run"] = hmac.new(shared.encode(), run.encode(), "sha256").hexdigest()
        elif tasks == 1:
            known["run"] = token_hex(32)
    return {name: value for name, value in known.items() if name in asked}


def _user_secrets(directories: Directories) -> dict[str, Any]:
    """Return the user's secrets, such as ``jobSSH`` and ``sshKeys``, and what an engine gives."""
    path = find_file((directories.user_secrets,), "userExtensionSecrets.yaml")
    if path is None:
        return {}
    root = read_document(path)
    if root.data is None:
        return {}
    if not isinstance(root.data, dict):
        raise InvalidInput([root.problem("not-a-mapping", "expected a mapping from names to values")])
    return {name: value for name, value in root.data.items() if value is not None}
