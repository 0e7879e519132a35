"""Settings of all tests: CI must not skip anything."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pai_pod.bundle.make import make_bundle
from pai_runtime.engines import hidden
from pai_runtime.host import own_modules
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from tests import needs
from tests.changed_first import ChangedFirst
from tests.cpu_time import CpuTime
from tests.outcomes import Outcomes, deselect_passed
from tests.plugin_factory import Site
from tests.process_mark import ProcessMark, deselect_marked
from tests.support import made_once

# How long an example takes depends on the machine, and no test may.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("any machine"), max_examples=20)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-time", action="store_true", help="print how much processor time each file takes")
    parser.addoption("--fast", action="store_true", help="leave out what starts a process")
    parser.addoption("--outcomes", type=Path, metavar="FILE", help="write what became of each test")
    parser.addoption(
        "--not-passed-in",
        type=Path,
        metavar="FILE",
        help="run what did not pass there, by its --outcomes, and what depends on the rights of a user",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A program inherits what is ignored, as under nohup, but no handler: ours keeps us alive as well.
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    config.pluginmanager.register(needs)
    config.pluginmanager.register(ChangedFirst())
    config.pluginmanager.register(ProcessMark())
    if config.getoption("--fast"):
        settings.load_profile("fast")
    if config.getoption("--cpu-time"):
        config.pluginmanager.register(CpuTime())
    if file := config.getoption("--outcomes"):
        config.pluginmanager.register(Outcomes(file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if file := config.getoption("--not-passed-in"):
        deselect_passed(config, items, file)
    if config.getoption("--fast"):
        deselect_marked(config, items)


def pytest_collection_finish() -> None:
    """What is there from the beginning is not looked at again, nor copied by processes that tests fork."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_stays_refused() -> Iterator[None]:
    """What the policy of one test refuses, another test of the same process may import."""
    yield
    own_modules.refuse(())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,  # noqa: ARG001 - pytest matches by name
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing may be skipped, a skipped test is a failed one."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(needs.NOTHING_SKIPPED):
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or changes what the user of this machine has in the cache, or has kept of runs."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def _hidden_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test hides in the texts of servers, no other test misses there."""
    monkeypatch.setattr(hidden, "_HIDDEN", hidden._Hidden())


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with all plugins of this environment."""
    return made_once(
        tmp_path_factory, "bundle", lambda folder: make_bundle(folder, Host(NO_POLICY), lambda _: None)
    )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
