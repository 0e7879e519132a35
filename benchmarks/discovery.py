"""discovery: `plugins list` with 300 more distributions installed, beside the same without them.

Each has metadata of usual size. First none of them brings a plugin, then each does.
"""

import json
import os
import tempfile
from pathlib import Path

from benchmarks.measure import PROGRAM, in_turn, milliseconds, process, table, times

COUNT = 300
RUNS = 7
GROUP = "pai_runtime.plugins"


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        without, plain, plugins = (Path(folder) / name for name in ("without", "plain", "plugins"))
        without.mkdir()
        _lay_out(plain, with_plugin=False)
        _lay_out(plugins, with_plugin=True)
        names = {
            "none": without,
            f"{COUNT} distributions without a plugin": plain,
            f"{COUNT} distributions with a plugin each": plugins,
        }
        measured = in_turn(
            RUNS,
            {
                name: process([PROGRAM, "plugins", "list"], env={**os.environ, "PYTHONPATH": str(site)})
                for name, site in names.items()
            },
        )
    none = measured["none"].median
    rows = [
        (
            name,
            milliseconds(timing.median),
            times(timing.median / none),
            f"{(timing.median - none) / COUNT * 1e6:.0f} us" if name != "none" else "",
        )
        for name, timing in measured.items()
    ]
    table(("more distributions", "time", "beside none", "for each"), rows)
    return []


def _lay_out(site: Path, *, with_plugin: bool) -> None:
    for number in range(COUNT):
        name = f"bench{number}"
        info = f"{name}-1.0.dist-info"
        points = (
            f"[{GROUP}]\norg.bench.{name} = {name}\n"
            if with_plugin
            else f"[console_scripts]\n{name} = {name}:main\n"
        )
        manifest = {
            "id": f"org.bench.{name}",
            "api": 1,
            "summary": "A plugin",
            "hooks": ["pai_prerequisite"],
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        }
        files = {
            f"{name}/__init__.py": "",
            f"{name}/manifest.json": json.dumps(manifest),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\n"
            + "About it.\n" * 300,
            f"{info}/WHEEL": "Wheel-Version: 1.0\n",
            f"{info}/entry_points.txt": points,
        }
        digest = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
        others = [f"{name}/part{part}.py" for part in range(50)]
        files[f"{info}/RECORD"] = "".join(f"{file},{digest},100\n" for file in [*files, *others])
        for file, text in files.items():
            path = site / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
