"""The fixtures that pytest finds."""

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pai_plugin_kit.runs import JobRun


@pytest.fixture
def run_job(tmp_path: Path) -> Callable[[Mapping[str, Any]], JobRun]:
    """Return a function that runs a job on this machine, as ``pai-runtime run`` does, and returns its run."""
    numbers = count(1)
    return lambda document: JobRun(document, tmp_path / f"job-{next(numbers)}")
