"""How much processor time each test file takes, which other work on the machine does not change."""

import resource
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

from tests.forked_command import spent_by_forked_commands


def spent() -> float:
    """CPU seconds of this process and of all its children that have been waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + spent_by_forked_commands()


class CpuTime:
    """Counts where the tests run, under xdist too, and prints where the reports arrive."""

    def __init__(self) -> None:
        self._before = 0.0
        self._files: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._workers = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._before = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = spent()
        report.cpu_seconds = now - self._before  # type: ignore[attr-defined] # xdist carries what a report has
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = getattr(report, "cpu_seconds", 0.0)
        self._files[report.nodeid.partition("::")[0]] += seconds
        self._tests[report.nodeid] += seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cpu_seconds"] = spent()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._workers += getattr(node, "workeroutput", {}).get("cpu_seconds", 0)  # none if it crashed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds")
        for counts, most in ((self._files, None), (self._tests, 400)):
            for name, seconds in sorted(counts.items(), key=lambda item: -item[1])[:most]:
                terminalreporter.line(f"{seconds:8.2f}  {name}")
        here = resource.getrusage(resource.RUSAGE_SELF)
        total = self._workers + here.ru_utime + here.ru_stime if self._workers else spent()
        tests = sum(self._tests.values())
        terminalreporter.line(f"{total:8.2f}  in all, of which {total - tests:.2f} beside the tests")
