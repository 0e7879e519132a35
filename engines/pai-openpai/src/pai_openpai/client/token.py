"""The token by which the cluster knows a user: of the environment, or kept by ``pai-runtime login``.

A token is sent to no other address than that of the cluster for which it was made: a kept one says which that
is, and that of the environment is used only where all profiles are of one cluster.
"""

import base64
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pai_network.authorization import is_token
from pai_network.fields import mapping, string
from pai_openpai.client.profile import ENGINE, OpenpaiProfile
from pai_runtime.engine import ClusterError
from pai_runtime.engine.documents import find_profile, profile_names
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.local import Folder, user_directory

VARIABLE: Final = "PAI_TOKEN"
"""The variable with a token for scripts, which goes before a kept one."""

_FOLDER: Final = "openpai"
_MOST_BYTES: Final = 64 * 1024
_OTHERS: Final = 0o077
_LAST: Final = 1e11
"""A time in seconds since 1970 that no token means."""


@dataclass(frozen=True)
class Token:
    """A token, which ``repr`` does not show; `origin` says where it is from, `user` whose it is if known."""

    text: str = field(repr=False)
    origin: str
    user: str = ""

    def end(self) -> float | None:
        """Return when it ends, in seconds since 1970; None if it has no end, or does not say."""
        try:
            part = self.text.split(".")[1]
            said = loads_untrusted(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["exp"]
            return float(said) if 0 < said < _LAST else None
        except (ValueError, LookupError, TypeError):
            return None


def is_variable_used(profile: OpenpaiProfile) -> bool:
    """Return whether there is a token in the environment, and it can be for no cluster of another profile."""
    return bool(os.environ.get(VARIABLE)) and all(
        str(each.value.data.get("url")).rstrip("/") == profile.url
        for each in map(find_profile, profile_names())
        if each.engine == ENGINE
    )


def read_token(profile: OpenpaiProfile) -> Token:
    """Return the token for a cluster. Raises `ClusterError` if there is none."""
    if is_variable_used(profile):
        given = os.environ[VARIABLE]
        if not is_token(given):
            raise ClusterError(f"{VARIABLE}: expected a token, found other characters")
        return Token(given, VARIABLE)
    path = _path(profile)
    try:
        status, data = _kept(path)
    except FileNotFoundError:
        unclear = f", and {VARIABLE} does not say of which cluster it is" if os.environ.get(VARIABLE) else ""
        raise ClusterError(f"{profile.name}: you are not logged in{unclear}; {_log_in(profile)}") from None
    except OSError as error:
        raise ClusterError(f"{path}: {error.strerror}; {_log_in(profile)}") from None
    if status.st_uid not in {0, os.geteuid()}:
        raise ClusterError(f"{path} belongs to another user; remove it, and {_log_in(profile)}")
    try:
        kept = mapping(loads_untrusted(data))
    except ValueError:
        kept = {}
    if not is_token(string(kept, "token")):
        raise ClusterError(f"{path} is not as pai-runtime login writes it; {_log_in(profile)}")
    if status.st_mode & _OTHERS:
        raise ClusterError(
            f"{path} is open to others: chmod 600 it, or revoke its token and {_log_in(profile)}"
        )
    if string(kept, "url") != profile.url:
        where = f"another address than {profile.url}"
        raise ClusterError(f"{profile.name}: your login is for {where}; {_log_in(profile)}")
    return Token(string(kept, "token"), str(path), string(kept, "user"))


def _kept(path: Path) -> tuple[os.stat_result, bytes]:
    """Return what a file is and holds. Raises OSError."""
    with Folder.at(path.parent) as folder, os.fdopen(folder.open(path.name), "rb") as opened:
        return os.fstat(opened.fileno()), opened.read(_MOST_BYTES)


def keep_token(profile: OpenpaiProfile, user: str, token: str) -> Path:
    """Keep a token in a file for its user alone, and return its path. Raises OSError."""
    path = _path(profile)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with Folder.at(path.parent) as folder:
        folder.write(path.name, json.dumps({"url": profile.url, "user": user, "token": token}), 0o600)
    return path


def refused(profile: OpenpaiProfile, token: Token) -> str:
    """Return why a cluster does not accept a token, as far as the token tells, and what to do."""
    end = token.end()
    if end is not None and end < time.time():
        why = f"has expired ({time.strftime('%Y-%m-%d %H:%M', time.localtime(end))})"
    else:
        why = "was revoked, has expired, or is of another cluster"
    again = f"set {VARIABLE} to another one" if token.origin == VARIABLE else _log_in(profile)
    return f"the token in {token.origin} {why}; {again}"


def _log_in(profile: OpenpaiProfile) -> str:
    return f"log in by: pai-runtime login --on {profile.name}"


def _path(profile: OpenpaiProfile) -> Path:
    folder = user_directory("XDG_CONFIG_HOME", ".config")
    if folder is None:
        raise ClusterError(f"there is no home directory for tokens; set {VARIABLE}")
    return folder / _FOLDER / f"{profile.name}.json"
