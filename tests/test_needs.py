"""A test whose needs the machine does not meet is skipped, and the last lines say what would meet them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import PACKAGES
from tests.support import ROOT

_CONFTEST = """
from tests import needs
needs.is_met = {"root": False, "runc": False, "strace": False, "dash": True}.__getitem__
def pytest_configure(config):
    config.addinivalue_line("markers", "needs(need, ...): of the table")
    config.pluginmanager.register(needs)
"""
_TESTS = """
import pytest
@pytest.mark.needs("dash")
def test_met(): pass
@pytest.mark.needs("runc", "root")
def test_two(): raise AssertionError
@pytest.mark.needs("strace")
@pytest.mark.needs("runc")
def test_stacked(): raise AssertionError
"""


@pytest.mark.process
def test_the_last_lines_say_what_was_skipped_for_what_and_how_to_run_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_few.py").write_text(_TESTS)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    ended = subprocess.run([*argv, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    counts, ways, total = filter(None, ended.stdout.splitlines()[-4:])
    assert "1 passed, 2 skipped" in total, ended.stdout
    assert counts.startswith("2 tests were skipped")
    assert "2 for Debian packages, 1 for root" in counts
    assert "root: run them as root" in ways
    assert ways.endswith("apt-get install --no-install-recommends runc strace")


def test_ci_installs_every_package_that_a_test_may_need() -> None:
    listed = re.findall(r'debian_packages="([^"]*)"', (ROOT / ".ci/run").read_text())
    assert PACKAGES.keys() - set(" ".join(listed).split()) == set()
