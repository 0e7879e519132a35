"""The pod volume: what an earlier execution has left there, and who may use what is left for the task."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pai_pod.volume import keep_from_others, open_to_all, remove_leftovers
from pai_task.folder import Folder
from tests.needs import MOUNT_NAMESPACE


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_all_but_what_is_kept_is_removed(tmp_path: Path) -> None:
    for name in ("logs/old", "runtime.d/deep/er", "bundle"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runtime").write_text("old")
    with Folder.at(tmp_path) as folder:
        remove_leftovers(folder, ["logs"])
    assert _names(tmp_path) == {"logs", "logs/old"}


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").write_text("kept")
    (outside / "file").chmod(0o600)
    volume.mkdir()
    for name, target in (("folder", outside), ("link", outside / "file")):
        (volume / name).symlink_to(target)
    with Folder.at(volume) as folder:
        open_to_all(folder)
        assert (outside / "file").stat().st_mode & 0o777 == 0o600
        remove_leftovers(folder)
    assert (_names(volume), _names(outside)) == (set(), {"inner", "file"})


_IN_NAMESPACE = """
import subprocess, sys
from pathlib import Path
from pai_pod.volume import remove_leftovers
from pai_task.folder import Folder
volume = Path(sys.argv[1])
kinds = {"secrets": "dir", "config/se crets.yaml": "dir", "deep/er/token": "file", "left": "dir"}
for name, kind in kinds.items():
    source, target = volume.parent / "source" / name, volume / name
    if kind == "dir":
        source.mkdir(parents=True)
        target.mkdir(parents=True)
        (source / "key").write_text("value")
    else:
        for each in (source, target):
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_text("value")
    if name != "left":
        subprocess.run(["mount", "--bind", source, target], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)
(volume / "config" / "left").write_text("")
with Folder.at(volume) as folder:
    remove_leftovers(folder)
print(*sorted(str(path.relative_to(volume)) for path in volume.rglob("*")), sep="\\n")
"""


@pytest.mark.process
@pytest.mark.needs("mounts")
def test_mounts_are_kept_with_what_is_in_them_and_above_them(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    done = subprocess.run(
        [*MOUNT_NAMESPACE, sys.executable, "-c", _IN_NAMESPACE, str(tmp_path / "volume")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines() == [
        "config",
        "config/se crets.yaml",
        "config/se crets.yaml/key",
        "deep",
        "deep/er",
        "deep/er/token",
        "secrets",
        "secrets/key",
    ]


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o666), (0o700, 0o777), (0o444, 0o666)])
def test_every_user_may_use_a_file_as_its_owner_may(tmp_path: Path, mode: int, expected: int) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    file = tmp_path / "private" / "file"
    file.write_text("")
    file.chmod(mode)
    with Folder.at(tmp_path) as folder:
        open_to_all(folder)
    assert file.stat().st_mode & 0o7777 == expected
    assert file.parent.stat().st_mode & 0o777 == 0o777


def test_a_file_that_has_another_name_elsewhere_remains_as_it_is(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    outside.chmod(0o600)
    (tmp_path / "volume").mkdir()
    os.link(outside, tmp_path / "volume" / "file")
    with Folder.at(tmp_path / "volume") as folder:
        open_to_all(folder)
    assert outside.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("mode", "kept"), [(0o777, 0o1777), (0o2777, 0o3777), (0o755, 0o755)])
def test_only_owners_rename_and_remove_what_is_on_a_volume_that_all_may_write(
    tmp_path: Path, mode: int, kept: int
) -> None:
    tmp_path.chmod(mode)
    with Folder.at(tmp_path) as folder:
        keep_from_others(folder)
    assert tmp_path.stat().st_mode & 0o7777 == kept
