"""What tests in containers share: the images, made once for all processes that run tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.containers import images
from tests.containers.pod import Pod
from tests.support import made_once

MAKERS: dict[str, Callable[[Path], None]] = {
    "busybox": images.busybox,
    "scratch": images.scratch,
    "musl": images.musl,
    "bullseye": images.bullseye,
    "empty": images.empty,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.needs("root", "mounts", "runc", "busybox-static", "bash-static"))


@pytest.fixture(autouse=True)
def _finds_programs_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's path may have no /usr/sbin: after ``su``, it is the path of whoever called it."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")


@pytest.fixture
def pod(tmp_path: Path, bundle: Path) -> Pod:
    return Pod(tmp_path, bundle)


@pytest.fixture
def image(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The image of a name."""
    return lambda name: made_once(tmp_path_factory, f"image-{name}", MAKERS[name])
