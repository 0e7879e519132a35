"""Settings of all tests: CI must not skip anything."""

import os
from collections.abc import Generator

import pytest

NOTHING_SKIPPED = "PAI_TEST_NOTHING_SKIPPED"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,  # noqa: ARG001 - pytest matches by name
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing may be skipped, a skipped test is a failed one."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(NOTHING_SKIPPED):
        report.outcome = "failed"
    return report
