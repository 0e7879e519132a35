"""How tasks in one step share its CPUs: cores are kept together, and only where they are bound."""

import os
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from pai_task.supervisor.cpu_shares import cpu_shares

_ANY: list[AbstractSet[int]] = [set(), set()]


@pytest.mark.parametrize(
    ("ours", "cpus", "shares"),
    [
        pytest.param({0, 1, 8, 9}, 2, [{0, 8}, {1, 9}], id="threads of a core"),
        pytest.param({0, 1, 2, 3}, 2, [{0, 2}, {1, 3}], id="packages"),
        pytest.param({0, 1, 2, 3}, 3, _ANY, id="too few"),
        pytest.param({*range(16)}, 2, _ANY, id="not bound"),
        pytest.param({*range(16)}, 8, [{*range(0, 16, 2)}, {*range(1, 16, 2)}], id="the whole machine"),
    ],
)
def test_cpus_are_shared_by_core_and_package(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ours: set[int],
    cpus: int,
    shares: list[AbstractSet[int]],
) -> None:
    for cpu in range(16):
        topology = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu % 2}\n")
        (topology / "thread_siblings_list").write_text(f"{cpu % 8},{cpu % 8 + 8}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: ours)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert cpu_shares(2, cpus, str(tmp_path)) == shares


def test_cpus_of_an_unknown_topology_are_shared_by_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 4, 5, 6})
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert cpu_shares(2, 1, str(tmp_path)) == [{3, 4}, {5, 6}]
