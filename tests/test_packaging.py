"""What the distributions say of each other, and what the locks of the image hold."""

import re
from importlib import metadata

from packaging.requirements import Requirement

from tests.support import ROOT

PLUGINS = {path.name for path in ROOT.glob("plugins/*")}
PLUGINS |= {"pai-container", "pai-definitions", "pai-openpai", "pai-pod"}
"""The distributions that `pai-runtime[all]` brings, and the image too."""
TEST_TOOLS = {"pytest", "hypothesis", "mypy", "ruff", "tensorboard", "hatchling", "uv"}


def _asked(distribution: str, extra: str = "") -> set[str]:
    """What the distribution asks for, with `extra` or without."""
    requirements = map(Requirement, metadata.requires(distribution) or ())
    return {
        each.name.lower()
        for each in requirements
        if each.marker is None or (extra and each.marker.evaluate({"extra": extra}))
    }


def _locked(file: str) -> dict[str, str]:
    """The version of each distribution, apart from those that only some versions of Python need."""
    return dict(re.findall(r"^([\w.-]+)==(\S+) \\$", (ROOT / file).read_text("utf-8"), re.MULTILINE))


def test_one_name_installs_every_built_in_plugin() -> None:
    assert _asked("pai-runtime", "all") - _asked("pai-runtime") == PLUGINS


def test_the_lock_of_the_runtime_has_all_that_it_asks_for_and_no_test_tools() -> None:
    asked = _asked("pai-pod", "bundle").union(_asked("pai-runtime"), *map(_asked, PLUGINS))
    locked = _locked("requirements-runtime.txt").keys()
    assert asked - PLUGINS - {"pai-document", "pai-network", "pai-runtime", "pai-task"} <= locked
    assert not locked & TEST_TOOLS


def test_the_image_gets_the_versions_that_the_tests_ran_with() -> None:
    tested = _locked("requirements.txt").items()
    assert _locked("requirements-runtime.txt").items() <= tested
    assert _locked("requirements-build.txt").items() <= tested
