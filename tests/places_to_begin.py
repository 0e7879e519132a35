"""Each xdist worker starts to collect a directory at another file; then all sort their tests alike.

Each collects all files. Where none has been compiled yet, as in a fresh checkout, all would compile each file
at the same time; so, each finds most of them compiled by another one.
"""

from collections.abc import Generator

import pytest

from tests.changed_first import distribution


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and isinstance(collector, pytest.Directory):
        begin = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = [*report.result[begin:], *report.result[:begin]]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring them into the order in which they are collected from the first place."""
    if hasattr(config, "workerinput"):
        distributions = list(dict.fromkeys(distribution(item.nodeid.partition("::")[0]) for item in items))
        items.sort(
            key=lambda item: (distributions.index(distribution(item.nodeid.partition("::")[0])), item.path)
        )
