"""Whether the tests that ran on several machines were the whole suite: ``whole_suite.py OUTCOMES...``.

Each file was written by ``./dev test --outcomes``. Fails unless every test has passed in one of the runs.
"""

import json
import sys
from collections import Counter
from pathlib import Path


def main() -> int:
    runs = [json.loads(Path(file).read_text()) for file in sys.argv[1:]]
    for file, outcomes in zip(sys.argv[1:], runs, strict=True):
        counts = Counter(outcomes.values())
        print(f"{Path(file).stem}: {', '.join(f'{count} {what}' for what, count in counts.most_common())}")
    known = {name for outcomes in runs for name in outcomes}
    passed = Counter(name for outcomes in runs for name, outcome in outcomes.items() if outcome == "passed")
    missing = sorted(known - passed.keys())
    for name in missing:
        print(f"passed nowhere: {name}")
    print(f"the whole suite: {len(known)} tests, of which {len(passed)} have passed")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
