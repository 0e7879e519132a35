"""All benchmarks, or those named: ``./dev bench [SUBJECT…]``. Exit status 1 if a target is missed.

Every figure stands beside a reference that was measured in the same run, turn by turn with it. Targets are
judged by CPU time: the clock also measures what else the machine does.
"""

import argparse
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

# Started as a script: the folder above is the one from which `benchmarks` can be imported.
sys.path[0] = str(Path(__file__).resolve().parents[1])

# What the caller's shell sets must not count: an installed runtime has its byte code, and no policy is asked.
for variable in ("PYTHONDONTWRITEBYTECODE", "PAI_RUNTIME_POLICY"):
    os.environ.pop(variable, None)

SUBJECTS = (
    "chain",
    "discovery",
    "startup",
    "task",
    "container",
    "hook",
    "many",
    "logs",
    "plugins",
    "crowd",
    "barrier",
    "images",
    "analyze",
    "framework",
    "kubernetes",
    "init",
    "bundle",
    "definitions",
    "rendering",
    "following",
    "usage",
    "hangs",
    "slurm",
    "marketplace",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(SUBJECTS)}")
    chosen = parser.parse_args().subjects or SUBJECTS
    if unknown := set(chosen) - set(SUBJECTS):
        parser.error(f"no subject '{min(unknown)}'; there are {', '.join(SUBJECTS)}")
    began = time.monotonic()
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f};"
        " times are medians of several runs, CPU times the least of them"
    )
    missed: list[str] = []
    for subject in chosen:
        module = import_module(f"benchmarks.{subject}")
        print(f"\n{(module.__doc__ or subject).strip()}\n")
        missed += module.main()
    print(f"\n{time.monotonic() - began:.0f} s in all")
    print("\n".join(f"MISSED: {target}" for target in missed) or "All targets are met.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
