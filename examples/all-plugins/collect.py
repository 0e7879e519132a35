"""Averages the fits of all workers, once they are there, and looks what TensorBoard shows."""

import json
import os
import time
import urllib.request
from pathlib import Path

PATIENCE = 60
"""Seconds for the other workers, and for TensorBoard, which starts slowly."""


def main() -> None:
    folder = Path(os.environ["PAI_WORK_DIR"])
    wanted = [
        folder / f"fit-{index}.json" for index in range(int(os.environ["PAI_TASK_ROLE_TASK_COUNT_worker"]))
    ]
    until = time.monotonic() + PATIENCE
    while not all(fit.exists() for fit in wanted) and time.monotonic() < until:
        time.sleep(0.1)
    fits = [json.loads(fit.read_text("utf-8")) for fit in wanted if fit.exists()]
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
