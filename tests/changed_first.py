"""The tests of the distributions that differ from the branch ``main`` come first, in each process."""

import subprocess
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any

import pytest

from tests.support import ROOT


def changed_distributions() -> set[str]:
    """The directories of those that have been changed since they left ``main``, committed or not."""
    argv = ["git", "-C", str(ROOT), "diff", "--name-only", "--merge-base", "main"]
    try:
        shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # nothing says what has been changed
        return set()
    return set(filter(None, map(distribution, shown.splitlines())))


def distribution(file: str) -> str | None:
    """The directory of the distribution that has this file below its code or its tests."""
    parts = file.split("/")
    return next(("/".join(parts[:at]) for at in (1, 2) if parts[at : at + 1] in (["src"], ["tests"])), None)


def in_order(items: Sequence[pytest.Item], changed: Collection[str], processes: int) -> list[pytest.Item]:
    """All of the items, in as many equal parts, each of which begins with its share of those of `changed`."""
    first = [item for item in items if distribution(item.nodeid.partition("::")[0]) in changed]
    rest = iter([item for item in items if distribution(item.nodeid.partition("::")[0]) not in changed])
    ordered: list[pytest.Item] = []
    for number in range(1, processes + 1):
        ordered += first[len(first) * (number - 1) // processes : len(first) * number // processes]
        ordered += islice(rest, max(0, len(items) * number // processes - len(ordered)))
    return ordered + list(rest)


class ChangedFirst:
    """Asks once, so that all processes that run tests for xdist have one order."""

    def __init__(self) -> None:
        self._changed: Iterable[str] | None = None

    def _of(self, config: pytest.Config) -> Collection[str]:
        if self._changed is None:
            told: dict[str, Any] = getattr(config, "workerinput", {})
            self._changed = told["changed"] if told else changed_distributions()
        return set(self._changed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["changed"] = sorted(self._of(node.config))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        processes = getattr(config, "workerinput", {}).get("workercount", 1)
        items[:] = in_order(items, self._of(config), processes)
