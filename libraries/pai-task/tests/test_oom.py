"""The kernel's count of processes that it ended for want of memory: found in every kind of cgroup."""

from pathlib import Path

import pytest

from pai_task.supervisor.oom import OomKills

_V1 = "9:cpu:/\n4:memory:/kubepods/pod1/c2\n0::/\n"
_V2 = "0::/kubepods/pod1/c2\n"


def _count(path: Path, kills: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("low 0\noom_kill_disable 0\n" + (f"oom_kill {kills}\n" if kills is not None else ""))


@pytest.mark.parametrize(
    ("cgroups", "file"),
    [
        pytest.param(_V2, "sys/fs/cgroup/kubepods/pod1/c2/memory.events", id="v2"),
        pytest.param(
            _V2, "sys/fs/cgroup/memory.events", id="v2, in a container that sees its own at the top"
        ),
        pytest.param("0::/\n", "sys/fs/cgroup/memory.events", id="v2, in a cgroup namespace"),
        pytest.param(_V2, "sys/fs/cgroup/unified/kubepods/pod1/c2/memory.events", id="v2 beside v1"),
        pytest.param(_V1, "sys/fs/cgroup/memory/kubepods/pod1/c2/memory.oom_control", id="v1"),
        pytest.param(_V1, "sys/fs/cgroup/memory/memory.oom_control", id="v1, in a container"),
        pytest.param("5:cpu,memory:/a\n", "sys/fs/cgroup/memory/a/memory.oom_control", id="v1, joined"),
        pytest.param("", "proc/vmstat", id="none: the whole machine's"),
    ],
)
def test_kills_are_counted_from_the_start_of_the_task(tmp_path: Path, cgroups: str, file: str) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(cgroups)
    _count(tmp_path / "proc" / "vmstat", 40)
    _count(tmp_path / file, 3)
    kills = OomKills(tmp_path / "proc", tmp_path / "sys")
    assert kills.since() == 0
    _count(tmp_path / file, 5)
    assert kills.since() == 2


def test_a_machine_that_does_not_count_is_not_taken_for_one_without_kills(tmp_path: Path) -> None:
    assert OomKills(tmp_path / "proc", tmp_path / "sys").since() is None
    _count(tmp_path / "proc" / "vmstat", None)
    assert OomKills(tmp_path / "proc", tmp_path / "sys").since() is None


def test_a_count_that_cannot_be_read_any_more_is_not_known(tmp_path: Path) -> None:
    _count(tmp_path / "proc" / "vmstat", 1)
    kills = OomKills(tmp_path / "proc", tmp_path / "sys")
    (tmp_path / "proc" / "vmstat").unlink()
    assert kills.since() is None


def test_whose_process_was_killed_is_not_known_of_a_cgroup_that_tasks_share(tmp_path: Path) -> None:
    _count(tmp_path / "proc" / "vmstat", 1)
    kills = OomKills(tmp_path / "proc", tmp_path / "sys", is_shared=True)
    assert kills.since() == 0
    _count(tmp_path / "proc" / "vmstat", 2)
    assert kills.since() is None


def test_this_machine_is_understood() -> None:
    assert OomKills().since() == 0
