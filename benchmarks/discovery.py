"""discovery: `plugins list` with 300 more distributions installed, beside the same without them.

Each has metadata of usual size. First none of them brings a plugin, then each does.

Target: at most 0.5 ms of CPU for each that brings a plugin.
"""

import json
import os
import tempfile
from pathlib import Path

from benchmarks.measure import PROGRAM, in_turn, milliseconds, process, table, times

COUNT = 300
RUNS = 7
GROUP = "pai_runtime.plugins"
NONE = "none"
PLUGINS = f"{COUNT} distributions with a plugin each"
MOST_SECONDS = 0.5e-3


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        without, plain, plugins = (Path(folder) / name for name in ("without", "plain", "plugins"))
        without.mkdir()
        _lay_out(plain, with_plugin=False)
        _lay_out(plugins, with_plugin=True)
        names = {
            NONE: without,
            f"{COUNT} distributions without a plugin": plain,
            PLUGINS: plugins,
        }
        measured = in_turn(
            RUNS,
            {
                name: process([PROGRAM, "plugins", "list"], env={**os.environ, "PYTHONPATH": str(site)})
                for name, site in names.items()
            },
        )
    none = measured[NONE]
    each = {name: (timing.cpu - none.cpu) / COUNT for name, timing in measured.items() if name != NONE}
    table(
        ("more distributions", "time", "CPU", "beside none", "CPU for each", "target"),
        [
            (
                name,
                milliseconds(timing.median),
                milliseconds(timing.cpu),
                times(timing.cpu / none.cpu),
                microseconds(each[name]) if name in each else "",
                microseconds(MOST_SECONDS) if name == PLUGINS else "",
            )
            for name, timing in measured.items()
        ],
    )
    return [f"a plugin takes {microseconds(each[PLUGINS])}"] if each[PLUGINS] > MOST_SECONDS else []


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us"


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
