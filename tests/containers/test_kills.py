"""Pods that are killed at random moments: a few here, more by ``python -m tools.kills pods``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tools.kills import kill_pod, kills, parts_of_pods

pytestmark = pytest.mark.process


def test_what_is_left_of_a_pod_that_is_killed_at_any_moment_agrees(
    tmp_path: Path, bundle: Path, image: Callable[[str], Path]
) -> None:
    parts = parts_of_pods(tmp_path, bundle, image("busybox"))
    assert kills(partial(kill_pod, parts), seed=1, count=4, workers=2) == 0
