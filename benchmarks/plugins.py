"""plugins: what each built-in plugin adds to `plan`, and to the time before a task's first byte.

Beside the same job without plugins, and `python -I -c pass`. Tasks are isolated where they can be. Each job
is run under a policy that allows its plugin only: one is on by default.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    BARE_PYTHON,
    PROGRAM,
    Timing,
    callback,
    first_byte,
    in_turn,
    job,
    milliseconds,
    process,
    table,
    times,
    write_job,
)
from pai_runtime.host.discovery import InstalledPlugins

RUNS = 11
NONE = "no plugin"
BARE = "python -I -c pass"


@dataclass(frozen=True)
class Case:
    """One use of a plugin in a job of one task; ``{folder}`` in a text is that of the benchmark."""

    name: str
    plugin: str
    parameters: Mapping[str, Any]
    options: Sequence[str] = ()

    def write(self, folder: Path) -> Path:
        parameters = {
            name: value.format(folder=folder) if isinstance(value, str) else value
            for name, value in self.parameters.items()
        }
        uses = [{"plugin": self.plugin, "parameters": parameters}]
        document = job(["echo hello"], extras={"com.microsoft.pai.runtimeplugin": uses})
        return write_job(folder / f"{self.name.replace(' ', '-')}.yaml", document)

    def arguments(self, folder: Path) -> list[str]:
        allow = _allow(folder / f"{self.name}.policy", f"com.microsoft.pai.runtimeplugin.{self.plugin}")
        return [*(option.format(folder=folder) for option in self.options), *allow]


STORAGE = ("--storage", "data={folder}/data")
CASES = (
    Case("cmd", "cmd", {"callbacks": [callback("taskStarts", "true")]}),
    Case("git", "git", {"repo_uri": "file://{folder}/code.git"}),
    Case("pvc_storage", "pvc_storage", {"name": "data"}, STORAGE),
    Case("storage", "storage", {"name": "data"}, STORAGE),
    Case("tensorboard", "tensorboard", {"logdir": "runs"}),
    Case("ssh", "ssh", {"jobssh": True}),
    Case("ssh, barrier", "ssh", {"jobssh": True, "sshbarrier": True}),
    Case("failure_analysis", "failure_analysis", {}),
)


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_repository(folder)
        (folder / "data").mkdir()
        jobs: dict[str, tuple[Path, list[str]]] = {
            NONE: (write_job(folder / "none.yaml", job(["echo hello"])), _allow(folder / "none.policy")),
            **{case.name: (case.write(folder), case.arguments(folder)) for case in CASES},
        }
        bare = process(BARE_PYTHON)
        plan = in_turn(
            RUNS,
            {
                BARE: bare,
                **{
                    each: process([PROGRAM, "plan", *options[-2:], str(path)])
                    for each, (path, options) in jobs.items()
                },
            },
        )
        run = [PROGRAM, "run", "--isolation", "auto", "--plain"]
        byte = in_turn(
            RUNS,
            {
                BARE: bare,
                **{
                    each: first_byte([*run, *options, str(path)], cwd=folder)
                    for each, (path, options) in jobs.items()
                },
            },
        )
    _print("plan, whole", plan)
    print()
    _print("run, first byte", byte)
    return []


def _print(title: str, measured: Mapping[str, Timing]) -> None:
    none, bare = measured[NONE], measured[BARE]
    table(
        (title, "time", BARE, NONE, "more", "CPU", "more"),
        [
            (
                name,
                milliseconds(timing.median),
                times(timing.median / bare.median),
                times(timing.median / none.median),
                milliseconds(timing.median - none.median) if name not in (NONE, BARE) else "",
                milliseconds(timing.cpu),
                milliseconds(timing.cpu - none.cpu) if name not in (NONE, BARE) else "",
            )
            for name, timing in measured.items()
        ],
    )


def _allow(path: Path, *ids: str) -> list[str]:
    """The options that allow these plugins and no others."""
    installed = InstalledPlugins()
    rules = [{"id": id_, "distribution": installed[id_][0].distribution, "versions": "*"} for id_ in ids]
    path.write_text(json.dumps({"policyVersion": 1, "plugins": rules}))
    return ["--policy", str(path)]


def _make_repository(folder: Path) -> None:
    """A bare repository with one commit."""
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
    for argv in (
        ["init", "--quiet", "code"],
        ["-C", "code", *identity, "commit", "--quiet", "--allow-empty", "--message", "Begin"],
        ["clone", "--quiet", "--bare", "code", "code.git"],
    ):
        subprocess.run(["git", *argv], cwd=folder, check=True)
