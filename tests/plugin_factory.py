"""Real plugin distributions: laid out in a folder as an installer leaves them, or as projects to be built."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pai_runtime.host.code import GROUP, Code
from pai_runtime.host.metadata import Distribution
from tests.support import cli

PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--no-deps", "--no-index")
UV = Path(sys.executable).with_name("uv")
"""The installers: arguments of this Python, and a program beside it."""

SEEN = "IMPORTS_SEEN"
"""The environment variable with the folder in which every module that is imported leaves its name."""

RECORDS_ITSELF = f"""\
import contextlib, os, pathlib
if {SEEN!r} in os.environ:
    with contextlib.suppress(FileExistsError): os.mkfifo(pathlib.Path(os.environ[{SEEN!r}], __name__))
"""
"""By what is no side effect in the eyes of a check of plugins, which this is not about."""

USES_API = RECORDS_ITSELF + "from pai_runtime.plugin import Contribution, ShellStep, Task, Use, hookimpl\n"

GREETS = """
@hookimpl
def pai_prerequisite(use, task):
    return Contribution(
        environment={"GREETED_BY_" + use.name.upper(): use.plugin},
        steps=[ShellStep("taskStarts", "echo hello from " + use.name)],
    )
"""
"""A plugin that works: one variable and one step."""


def manifest(id_: str, **fields: Any) -> dict[str, Any]:
    """A valid manifest of a plugin with `pai_prerequisite` and any parameters; `fields` replace its own."""
    return {
        "id": id_,
        "api": 1,
        "summary": f"The plugin {id_}",
        "hooks": ["pai_prerequisite"],
        "parameters": {"type": "object"},
        **fields,
    }


@dataclass(frozen=True)
class Made:
    """A plugin distribution that was laid out: its package and its ``.dist-info`` folder."""

    id: str
    distribution: str
    version: str
    package: Path
    info: Path

    @property
    def label(self) -> str:
        return f"plugin {self.id} ({self.distribution} {self.version})"

    @property
    def digest(self) -> str:
        """As it is now."""
        return Code(Distribution(str(self.info.parent), self.info.name)).digest

    @property
    def code(self) -> Path:
        return self.package / "__init__.py"


class Site:
    """A folder of installed distributions, on the search path of the real command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._seen = folder / "imports-seen"
        self._seen.mkdir(exist_ok=True)

    def add(
        self,
        id_: str,
        code: str = GREETS,
        *,
        distribution: str | None = None,
        version: str = "1.0",
        files: Mapping[str, str | None] | None = None,
        **fields: Any,
    ) -> Made:
        """Install a plugin whose module has `code`, and whose manifest has `fields`.

        `files` are more files, or other contents; a file whose content is None is left out. ``{package}``
        and ``{info}`` in their names stand for the two folders.
        """
        distribution = distribution or id_.replace(".", "-")
        name = distribution.replace("-", "_")
        info = f"{name}-{version}.dist-info"
        contents: dict[str, str | None] = {
            f"{name}/__init__.py": USES_API + code,
            f"{name}/manifest.json": json.dumps(manifest(id_, **fields)),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
            f"{info}/entry_points.txt": f"[{GROUP}]\n{id_} = {name}\n",
            **{file.format(package=name, info=info): text for file, text in (files or {}).items()},
        }
        written = {file: text for file, text in contents.items() if text is not None}
        for file, text in written.items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        made = Made(id_, distribution, version, self.folder / name, self.folder / info)
        if f"{info}/RECORD" not in contents:
            self.write_record(made, [*written, f"{info}/RECORD"])
        return made

    def write_record(self, made: Made, files: list[str]) -> None:
        """What the distribution says that it installed."""
        rows = (f"{file},{_record_hash(self.folder / file)}" for file in files)
        (made.info / "RECORD").write_text("".join(f"{row}\n" for row in rows))

    def environment(self, *before: Path) -> dict[str, str]:
        """An environment that finds this folder, after the folders `before`."""
        return {"PYTHONPATH": os.pathsep.join(map(str, (*before, self.folder))), SEEN: str(self._seen)}

    def cli(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        before: tuple[Path, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """The real command with this folder on its search path."""
        passed = ["--env", SEEN] if args[0] == "run" else []
        return cli(*args, *passed, cwd=cwd, env={**self.environment(*before), **(env or {})})

    @property
    def imported(self) -> set[str]:
        """The plugins' modules that any process has imported so far."""
        return {path.name for path in self._seen.iterdir()}


def project(folder: Path, id_: str, *, version: str = "1.0", code: str = GREETS, more: str = "") -> Path:
    """A source project of a plugin, built with hatchling; its name is that of `folder`."""
    name = folder.name.replace("-", "_")
    package = folder / "src" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(USES_API + code)
    (package / "part.py").write_text("PART = 1\n")
    (package / "manifest.json").write_text(json.dumps(manifest(id_)))
    (folder / "pyproject.toml").write_text(f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{folder.name}"
version = "{version}"
{more}
[project.entry-points."{GROUP}"]
"{id_}" = "{name}"
[tool.hatch.build.targets.wheel]
packages = ["src/{name}"]
dev-mode-dirs = ["src"]
""")
    return folder


def uses(*plugins: str, **each: Any) -> dict[str, Any]:
    """The fields of a job whose role uses these plugins in this order, as ``use0``, ``use1`` and so on.

    `each` are fields of every such prerequisite.
    """
    prerequisites = [
        {"name": f"use{number}", "type": "script", "plugin": plugin, **each}
        for number, plugin in enumerate(plugins)
    ]
    return {
        "prerequisites": prerequisites,
        "worker": {"prerequisites": [prerequisite["name"] for prerequisite in prerequisites]},
    }


def policy_rule(made: Made, **fields: str) -> dict[str, str]:
    """The rule that allows a plugin in exactly this version; `fields` replace or complete its own."""
    return {"id": made.id, "distribution": made.distribution, "versions": f"=={made.version}", **fields}


def write_policy(folder: Path, *rules: Mapping[str, Any]) -> Path:
    """A policy file with these rules."""
    path = folder / "policy.yaml"
    path.write_text(json.dumps({"policyVersion": 1, "plugins": rules}, indent=1))
    return path


def _record_hash(path: Path) -> str:
    if not path.exists():
        return ","
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{path.stat().st_size}"
