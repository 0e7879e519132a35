"""What is no code unless ``.paiignore`` takes it back: see `DEFAULTS`, and what git's ignore files name."""

import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from pai_runtime.engines.ignoring import Ignored
from pai_task.folder import Folder
from pai_task.record import record
from pai_task.regular_file import read_and_close

GIT_IGNORE_FILE: Final = ".gitignore"
MOST_PATTERNS: Final = 64 * 1024
"""Maximum size in bytes of one ignore file."""

UNNAMED: Final = "caches"
"""The kind of what nobody misses, and no message names."""

_ENVIRONMENT: Final = "environment"
_CREDENTIALS: Final = "may hold credentials"
DEFAULTS: Final = {
    UNNAMED: (
        *(".git", "__pycache__/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".ipynb_checkpoints/"),
        *(".tox/", ".nox/"),
    ),
    _ENVIRONMENT: ("node_modules/",),
    _CREDENTIALS: (
        *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template"),
        *(".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials"),
        *(".ssh/", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
        *("**/.aws/credentials", "**/.docker/config.json", "**/.kube/config"),
        *("kubeconfig", "*.kubeconfig", "kubeconfig.yaml", "kubeconfig.yml"),
        *("secrets.yaml", "secrets.yml", "secrets.json", "secrets.toml"),
    ),
}
"""Patterns by kind; an environment is also a directory that contains one of `_MARKS`."""

_MARKS = ("pyvenv.cfg", "conda-meta")
_KEYS = (".pem", ".key")
"""The ends of the names of files that hold credentials if there is a private key in them."""
_KEY = b"PRIVATE KEY-----"
_LARGEST_KEY = 64 * 1024


@record(frozen=True)
class LeftOut:
    """What is left out by default in one directory of code.

    `base` is the path of the code below the top of its repository, and `rules` are git's ignore files, the
    deepest one first, each with the path of its directory from that top; paths end in a slash.
    """

    base: str = ""
    rules: tuple[tuple[str, Ignored], ...] = ()

    @classmethod
    def of(cls, folder: Path) -> "LeftOut":
        """Return what the ignore files above a directory, up to the top of its repository, leave out.

        They do not count if they leave out the directory itself. Raises OSError.
        """
        top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), folder)
        above, found = "", cls()
        for name in folder.relative_to(top).parts:
            with Folder.at(top / above) as holder:
                found = found.inside(holder, above)
            above = f"{above}{name}/"
            if found.is_ignored_by_git(above[:-1], is_folder=True):
                return cls()
        return cls(above, found.rules)

    def inside(self, folder: Folder, path: str) -> "LeftOut":
        """Return what is left out in a directory of the code, at `path`. Raises OSError.

        As for git, an ignore file is a regular file, and a line that is no pattern matches nothing.
        """
        try:
            if not stat.S_ISREG(folder.stat(GIT_IGNORE_FILE).st_mode):
                return self
        except FileNotFoundError:
            return self
        text = folder.read(GIT_IGNORE_FILE, MOST_PATTERNS).decode("utf-8-sig", "surrogateescape")
        rule = (self.base + path, Ignored(text.split("\n"), lenient=True))
        return LeftOut(self.base, (rule, *self.rules))

    def kind(self, holder: Folder, path: str, *, is_folder: bool) -> str:
        """Return why an entry of `holder` is left out: a kind or git's ignore file; empty if it is not."""
        name = path.rpartition("/")[2]
        if is_folder and any(holder.exists(f"{name}/{mark}") for mark in _MARKS):
            return _ENVIRONMENT
        for kind, ignored in _defaults().items():
            if ignored(path, is_folder=is_folder):
                return kind
        if name.endswith(_KEYS) and not is_folder and _has_key(holder, name):
            return _CREDENTIALS
        return GIT_IGNORE_FILE if self.is_ignored_by_git(self.base + path, is_folder=is_folder) else ""

    def is_ignored_by_git(self, path: str, *, is_folder: bool) -> bool:
        """Return whether git ignores an entry, in a directory that it does not; `path` begins at the top."""
        decisions = (rule.decides(path[len(above) :], is_folder=is_folder) for above, rule in self.rules)
        return next((decided for decided in decisions if decided is not None), False)


@cache
def _defaults() -> Mapping[str, Ignored]:
    return {kind: Ignored(patterns) for kind, patterns in DEFAULTS.items()}


def _has_key(holder: Folder, name: str) -> bool:
    try:
        return _KEY in read_and_close(holder.open(name), _LARGEST_KEY)
    except OSError:  # whoever reads it as code says so
        return False
