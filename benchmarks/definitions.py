"""definitions: from a job that requires shared definitions to one that has them, and a run's lock file.

A whole process each: with the definitions in the files of a folder, and with those of a server, locked and in
the cache. Beside `python -I -c pass`, and beside reading the same files with `cat`. Targets: so many times of
the first for 500 definitions, and linear growth (at most 5 x for four times as many).
"""

import os
import sys
from pathlib import Path

from benchmarks.measure import (
    BARE,
    BARE_PYTHON,
    Timing,
    filled_folder,
    in_turn,
    job,
    milliseconds,
    process,
    table,
    times,
    write_job,
)

SIZES = (1, 500, 2000)
JUDGED = 500
RUNS = 7
MOST_TIMES = 20
MOST_GROWTH = 5
FOLDER, CACHE = "in a folder", "in the cache"

RESOLVE = """
import gc, sys
from pathlib import Path
gc.set_threshold(50_000)
from pai_document.problems import Problems
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.load import load_job
from pai_runtime.job.plugins import JobPlugins
from pai_runtime.plan.definitions import JobDefinitions

path, problems = Path(sys.argv[1]), Problems()
none = JobPlugins(lambda _: None, lambda _: {}, str, lambda: "cmd", lambda _: None, lambda root, _: root)
definitions = JobDefinitions(Host(NO_POLICY), path)
job = load_job(path, None, none, problems, open_definitions=definitions)
problems.check()
assert definitions.resolved()  # as each run keeps them
assert len(job.uses["worker"].uses) == int(sys.argv[2]), len(job.uses["worker"].uses)
gc.freeze()  # at the exit, as the commands do
"""
DEFINITION = """\
- name: data_{number}
  type: data
  plugin: cmd
  plugin_params:
    callbacks:
      - event: taskStarts
        commands:
          - mkdir -p {{{{ dataPath }}}}
          - cp -r /mnt/data/{number}/* {{{{ dataPath }}}}
  template_variables:
    - name: dataPath
"""
"""One as the proposal for shared prerequisites has them."""


def main() -> list[str]:
    with filled_folder(_write_all) as folder:
        things = {BARE: process(BARE_PYTHON)}
        for size in SIZES:
            things[f"cat {size}"] = process(["sh", "-c", f"cat {folder}/{size}/definitions/* >/dev/null"])
            for kind in (FOLDER, CACHE):
                path = folder / str(size) / kind.replace(" ", "-") / "job.yaml"
                # Nobody serves these URLs: whatever is not in the cache is missing.
                env = {**os.environ, **_directories(folder / str(size)), "no_proxy": "*"}
                things[f"{kind} {size}"] = process(
                    [sys.executable, "-I", "-c", RESOLVE, str(path), str(size)], env=env
                )
        measured = in_turn(RUNS, things)
    return _report(measured)


def _report(measured: dict[str, Timing]) -> list[str]:
    missed, rows = [], []
    bare = measured[BARE].cpu
    for kind in (FOLDER, CACHE):
        least, before = measured[f"{kind} {SIZES[0]}"].cpu, 0.0
        for size in SIZES:
            timing, reference = measured[f"{kind} {size}"], measured[f"cat {size}"]
            ratio, more = timing.cpu / bare, timing.cpu - least
            growth = more / before if before else None
            is_judged = size == JUDGED
            rows.append(
                (
                    f"{size} {kind}",
                    milliseconds(timing.median),
                    milliseconds(timing.cpu),
                    times(ratio),
                    times(MOST_TIMES) if is_judged else "",
                    times(growth) if growth else "",
                    milliseconds(reference.cpu),
                )
            )
            if is_judged and ratio > MOST_TIMES:
                missed.append(f"{size} definitions {kind} take {times(ratio)} of {BARE}")
            if growth and growth > MOST_GROWTH:
                missed.append(f"definitions {kind} grow {times(growth)} up to {size}")
            before = more
    table(("definitions", "time", "CPU", f"CPU beside {BARE}", "target", "growth", "cat, CPU"), rows)
    return missed


def _directories(folder: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}


def _write_all(folder: Path) -> None:
    from pai_definitions.cache import Cache  # noqa: PLC0415 - as above
    from pai_definitions.lock import Pin, lock_path, lock_text  # noqa: PLC0415
    from pai_definitions.locked import keep_file  # noqa: PLC0415
    from pai_runtime.definitions import DefinitionFile  # noqa: PLC0415

    for size in SIZES:
        here = folder / str(size)
        texts = [DEFINITION.format(number=number) for number in range(size)]
        (here / "definitions").mkdir(parents=True)
        for number, text in enumerate(texts):
            (here / f"definitions/{number}.yaml").write_text(text, "utf-8")
        (here / "config/pai-runtime").mkdir(parents=True)
        source = f"sources: [{{name: bench, folder: {here}/definitions}}]\n"
        (here / "config/pai-runtime/marketplace.yaml").write_text(source, "utf-8")
        names = [f"marketplace://data/data_{number}" for number in range(size)]
        _write_job(here / "in-a-folder", names)
        urls = [f"http://127.0.0.1:9/definitions/{number}.yaml" for number in range(size)]
        path = _write_job(here / "in-the-cache", urls)
        os.environ.update(_directories(here))
        cache, pins = Cache(), []
        for number, (url, text) in enumerate(zip(urls, texts, strict=True)):
            file = DefinitionFile(url, url, url, text.encode())
            keep_file(cache, file)
            pins.append(Pin(url, "", url, f"data_{number}", "", file.digest))
        lock_path(path).write_text(lock_text(pins), "utf-8")


def _write_job(folder: Path, references: list[str]) -> Path:
    folder.mkdir()
    uses = [
        {"name": name, "template_variables": {"dataPath": f"/data/{number}"}}
        for number, name in enumerate(references)
    ]
    return write_job(folder / "job.yaml", job([":"], uses=uses))
