"""What became of each test, in a file, so that runs on several machines can be the whole suite together."""

import json
from pathlib import Path

import pytest

from tests.left_out import keep
from tests.needs import RIGHTS, needs_of


class Outcomes:
    """Writes them: ``{"core/tests/test_x.py::test_y": "passed"}``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            worse = self._found.get(report.nodeid, "passed") == "passed"
            self._found[report.nodeid] = report.outcome if worse else self._found[report.nodeid]

    def pytest_sessionfinish(self) -> None:
        if self._found:  # what runs tests for xdist is told of none
            self._file.write_text(json.dumps(self._found, indent=0, sort_keys=True))


def deselect_passed(config: pytest.Config, items: list[pytest.Item], file: Path) -> None:
    """Leave what was skipped there, and what this user may do in another way than that one."""
    found = json.loads(file.read_text())

    def is_left(item: pytest.Item) -> bool:
        return found.get(item.nodeid) != "passed" or not RIGHTS.keys().isdisjoint(needs_of(item))

    keep(config, items, is_left)
