"""What `benchmarks.bundle` measures in a namespace that has the bundle in its place."""

import json
import sys
from pathlib import Path

from benchmarks.bundle import measure_starts


def main() -> int:
    timings = measure_starts(Path(sys.argv[1]))
    print(json.dumps({name: [each.median, each.cpu] for name, each in timings.items()}))
    return 0
