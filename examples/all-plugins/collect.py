"""Averages the fits of the workers, once enough are there, and looks what TensorBoard shows."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

PATIENCE = 60
"""Seconds for the other workers, and for TensorBoard, which starts slowly."""


def main() -> None:
    folder = Path(os.environ["PAI_WORK_DIR"])
    enough = int(sys.argv[1])
    until = time.monotonic() + PATIENCE
    while len(found := sorted(folder.glob("fit-*.json"))) < enough and time.monotonic() < until:
        time.sleep(0.1)
    fits = [json.loads(fit.read_text("utf-8")) for fit in found]
    slope, intercept = (sum(column) / len(fits) for column in zip(*fits, strict=True))
    print(f"{len(fits)} workers together: distance = {slope:.2f} * speed {intercept:+.2f}")
    print(f"TensorBoard shows {', '.join(tensorboard_runs()) or 'nothing'}")


def tensorboard_runs() -> list[str]:
    """Return the runs that TensorBoard has read something of."""
    port = os.environ["PAI_CONTAINER_HOST_tensorboard_PORT_LIST"]
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/data/runs") as answer:
                if runs := json.load(answer):
                    return runs
        except OSError:
            pass
        time.sleep(0.2)
    return []


if __name__ == "__main__":
    main()
