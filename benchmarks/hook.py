"""hook: a hook of a plugin that does nothing, in a process of its own as in a task.

Beside `python -I -S -c pass`, and the import of what each plugin imports itself.
"""

import base64
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import Thing, first_byte, in_turn, milliseconds, process, table, times
from pai_runtime.host.code import GROUP, Code
from pai_runtime.host.metadata import Distribution
from pai_task.interpreter import argv_of, search_path
from pai_task.plan import UseRecord
from pai_task.record_json import to_json

RUNS = 25
ID = "org.example.nothing"
MODULE = "from pai_runtime.plugin import hookimpl\n\n@hookimpl\ndef pai_init(use, task):\n    print('done')\n"
BARE = "python -I -S -c pass"


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = [name, *search_path()]
        start = f"import sys; sys.path[:] = {path}; import pai_runtime.plugin"
        measured = in_turn(
            RUNS,
            {
                "hook": _hook(folder, path),
                "import pai_runtime.plugin": process([sys.executable, "-I", "-S", "-c", start]),
                BARE: process([sys.executable, "-I", "-S", "-c", "pass"]),
            },
        )
    bare = measured[BARE]
    table(
        ("", "time", BARE, "CPU", BARE),
        [
            (
                name,
                milliseconds(timing.median),
                times(timing.median / bare.median),
                milliseconds(timing.cpu),
                times(timing.cpu / bare.cpu),
            )
            for name, timing in measured.items()
        ],
    )
    return []


def _hook(folder: Path, path: list[str]) -> Thing:
    given = folder / "given.json"
    document: dict[str, Any] = {
        "environment": {},
        "secrets": {},
        "use": to_json(_install(folder)),
        "failure": None,
        "record": None,
        "hasSucceeded": None,
    }
    task = {"job": "job", "role": "worker", "index": 0, "instances": {"worker": 1}, "ports": {}, "gang": True}
    more = {"task": {**task, "folder": str(folder)}, "refused": [], "rules": []}
    given.write_text(json.dumps({**document, **more}))
    hook = argv_of(sys.executable, path, "pai_runtime.host.hook_runner", "pai_init")
    # Its input is at descriptor 3, where the supervisor leaves it.
    return first_byte(["bash", "-c", 'exec 3<"$0" "$@" 2>&1', str(given), *hook])


def _install(folder: Path) -> UseRecord:
    info = folder / "nothing-1.0.dist-info"
    info.mkdir()
    files = {
        "nothing.py": MODULE,
        f"{info.name}/METADATA": "Metadata-Version: 2.1\nName: nothing\nVersion: 1.0\n",
        f"{info.name}/entry_points.txt": f"[{GROUP}]\n{ID} = nothing\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    rows = [f"{name},sha256={_as_noted(text)},{len(text)}" for name, text in files.items()]
    (info / "RECORD").write_text("\n".join([*rows, f"{info.name}/RECORD,,", ""]))
    digest = Code(Distribution(str(info.parent), info.name)).digest
    return UseRecord("nothing", ID, "nothing", "1.0", digest, {}, "fail", "job.yaml:1:1")


def _as_noted(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
