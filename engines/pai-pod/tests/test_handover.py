"""What the init container hands over to the task container."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pai_pod.handover import NAME, Handover, hand_over, take_over
from pai_task.folder import Folder

_HANDOVER = Handover("/logs/uid", {"token": "s3cret", "y.0": "\0"})


def test_it_comes_over_as_it_was_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        hand_over(folder, _HANDOVER)
        assert take_over(folder) == _HANDOVER
    assert not (tmp_path / NAME).exists()


def test_it_is_there_once(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        hand_over(folder, _HANDOVER)
        take_over(folder)
        with pytest.raises(FileNotFoundError):
            take_over(folder)


def test_one_of_an_earlier_init_container_is_replaced(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        hand_over(folder, Handover("/earlier", {"a": "b"}))
        hand_over(folder, _HANDOVER)
        assert take_over(folder) == _HANDOVER


def test_no_secret_is_in_its_representation() -> None:
    assert "s3cret" not in repr(_HANDOVER)


@pytest.mark.process
@pytest.mark.needs("root")
def test_any_user_can_take_what_root_hands_over(tmp_path: Path) -> None:
    for outer in (tmp_path, *tmp_path.parents[:2]):
        outer.chmod(0o777)
    with Folder.at(tmp_path) as folder:
        before = os.umask(0o077)
        try:
            hand_over(folder, _HANDOVER)
        finally:
            os.umask(before)
    script = (
        "import os, sys; os.setgid(12345); os.setuid(12345); "
        f"fd = os.open({NAME!r}, os.O_RDONLY); os.unlink({NAME!r}); os.write(1, os.read(fd, 1000))"
    )
    taken = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(taken.stdout)["secrets"] == _HANDOVER.secrets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"logs": "/l"}',
        '{"logs": "relative", "secrets": {}, "tai64n": false}',
        '{"logs": 1, "secrets": {}, "tai64n": false}',
        '{"logs": "/l", "secrets": [], "tai64n": false}',
        '{"logs": "/l", "secrets": {"a": 1}, "tai64n": false}',
        r'{"logs": "/\ud800", "secrets": {}, "tai64n": false}',
        r'{"logs": "/\u0000", "secrets": {}, "tai64n": false}',
        r'{"logs": "/l", "secrets": {"a": "\ud800"}, "tai64n": false}',
        r'{"logs": "/l", "secrets": {"\ud800": "a"}, "tai64n": false}',
        "[" * 100_000,
        '{"logs": "/l", "secrets": {}, "tai64n": 1}',
        '{"logs": "/l", "secrets": {}}',
    ],
)
def test_what_is_no_handover_is_refused_and_removed_all_the_same(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_text(text)
    with Folder.at(tmp_path) as folder, pytest.raises(ValueError):  # noqa: PT011 - there is no other
        take_over(folder)
    assert not (tmp_path / NAME).exists()


def test_what_is_no_file_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("{}")
    (tmp_path / NAME).parent.mkdir()
    with Folder.at(tmp_path) as folder:
        (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError):  # noqa: PT011 - whatever the kernel calls it
            take_over(folder)
        (tmp_path / NAME).unlink()
        os.mkfifo(tmp_path / NAME)
        with pytest.raises(OSError):  # noqa: PT011 - as above
            take_over(folder)
