"""``./dev test`` begins with the tests of the distributions that have been changed."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.changed_first import distribution, in_order


@dataclass(frozen=True)
class Item:
    nodeid: str


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("core/src/pai_runtime/cli/run.py", "core"),
        ("plugins/pai-ssh/tests/test_ssh_jobs.py", "plugins/pai-ssh"),
        ("engines/pai-pod/README.md", None),
        ("tests/test_needs.py", None),
        ("dev", None),
    ],
)
def test_whose_a_file_is(file: str, folder: str | None) -> None:
    assert distribution(file) == folder


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_each_process_begins_with_its_share_and_none_is_lost(processes: int) -> None:
    files = ["core/tests/test_a.py", "plugins/pai-ssh/tests/test_b.py", "tests/test_c.py"]
    items: Any = [Item(f"{file}::test_{number}") for file in files for number in range(4)]
    ordered: Any = in_order(items, {"plugins/pai-ssh"}, processes)
    assert sorted(item.nodeid for item in ordered) == sorted(item.nodeid for item in items)
    for process in range(processes):
        assert ordered[len(items) * process // processes].nodeid.startswith("plugins/pai-ssh/")
    assert processes > 1 or [item.nodeid for item in ordered[4:]] == [
        item.nodeid for item in items if "pai-ssh" not in item.nodeid
    ]
