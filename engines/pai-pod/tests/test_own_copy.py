"""What the init container leaves private, made the task user's own."""

import os
from pathlib import Path

from pai_pod.own_copy import make_own
from pai_task.folder import Folder


def _modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.lstat().st_mode & 0o777
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


def test_only_its_owner_can_access_the_copy(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "bin").mkdir(parents=True)
    for name, mode in (("key", 0o666), ("bin/tool", 0o777)):
        (private / name).write_text(name)
        (private / name).chmod(mode)
    for folder in (private, private / "bin"):
        folder.chmod(0o777)
    (private / "link").symlink_to("/etc/passwd")
    os.mkfifo(private / "fifo")
    (tmp_path / ".private.own" / "left").mkdir(parents=True)  # of a copy that was interrupted
    before = private.stat().st_ino
    with Folder.at(tmp_path) as task:
        make_own(task, "private")
    assert _modes(tmp_path) == {
        "private": 0o700,
        "private/bin": 0o700,
        "private/bin/tool": 0o700,
        "private/key": 0o600,
    }
    assert (private / "key").read_text() == "key"
    assert (private / "link").readlink() == Path("/etc/passwd")
    assert private.stat().st_ino != before
