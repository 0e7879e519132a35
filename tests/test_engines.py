"""An engine profile leads to the engine of whatever distribution brings it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pai_runtime.document.problems import InvalidInput
from pai_runtime.engines.finding import open_cluster
from tests.small_cluster import install_engine, write_profiles

CLUSTER = """
class Engine:
    def open_cluster(self, profile):
        return profile.name, profile.value.data

engine = Engine()
"""


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where distributions are found. The user has a profile for the engine ``cluster``."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "some_cluster", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_profiles(tmp_path / "config", "  lab:\n    engine: cluster\n    queue: fast\n")
    return folder


def _installed(site: Path) -> None:
    install_engine(site, "cluster = some_cluster:engine", "some-cluster")
    (site / "some_cluster.py").write_text(CLUSTER)


def test_the_engine_is_given_the_profile_with_all_that_is_written_there(site: Path) -> None:
    _installed(site)
    cluster: object = open_cluster("lab")
    assert cluster == ("lab", {"engine": "cluster", "queue": "fast"})


def _broken(site: Path) -> None:
    install_engine(site, "cluster = no_such_module", "broken-cluster")


def _twice(site: Path) -> None:
    install_engine(site, "cluster = json", "one-cluster")
    install_engine(site, "cluster = json", "other-cluster")


def _twice_by_one_name(site: Path) -> None:
    install_engine(site, "cluster = json", "one-cluster")
    install_engine(site, "cluster = json", "one-cluster", version="2.0")


def _no_engine(site: Path) -> None:
    install_engine(site, "cluster = json", "no-cluster")


def _none(_: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("install", "words"),
    [
        (_none, ["'cluster'", "not installed"]),
        (_no_engine, ["'cluster'", "open_cluster"]),
        (_broken, ["'cluster'", "broken-cluster", "no_such_module"]),
        (_twice, ["'cluster'", "one-cluster, other-cluster"]),
        (_twice_by_one_name, ["'cluster'", "one-cluster, one-cluster"]),
    ],
)
def test_an_engine_that_cannot_be_had_is_told_where_it_is_named(
    site: Path, install: Callable[[Path], None], words: list[str]
) -> None:
    install(site)
    with pytest.raises(InvalidInput) as raised:
        open_cluster("lab")
    (problem,) = raised.value.problems
    assert (problem.code, problem.field) == ("no-engine", "engines.lab.engine")
    assert problem.position is not None
    assert problem.position.line == 4
    assert all(word in problem.message for word in words)


def test_an_engine_is_imported_only_when_a_profile_of_it_is_named(site: Path, tmp_path: Path) -> None:
    _installed(site)
    text = "  lab:\n    engine: cluster\n  other:\n    engine: no-such-engine\n"
    write_profiles(tmp_path / "config", text)
    with pytest.raises(InvalidInput):
        open_cluster("other")
    assert "some_cluster" not in sys.modules
    open_cluster("lab")
    assert "some_cluster" in sys.modules
