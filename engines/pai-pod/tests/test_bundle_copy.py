"""Putting a bundle on a pod's volume: all of it or nothing, whatever is there and whatever happens."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pai_pod.bundle_copy import bundle_on_its_way
from pai_pod.errors import InitFailed
from tests.needs import MOUNT_NAMESPACE

pytestmark = pytest.mark.process

_PLACE = """
import sys
from pathlib import Path
from pai_pod.bundle_copy import bundle_on_its_way
try:
    with bundle_on_its_way(Path(sys.argv[1]), Path(sys.argv[2])) as place:
        place()
except OSError as error:
    print(error.errno, error.filename)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path / "source", "sha256:1")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


def make_source(folder: Path, digest: str) -> Path:
    """What is copied as a bundle is."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/program").write_bytes(os.urandom(200_000))
    (folder / "bin/program").chmod(0o755)
    (folder / "bin/link").symlink_to("program")
    (folder / "data").write_text("")
    (folder / "runtime").write_text("#!launcher\n")
    (folder / "runtime").chmod(0o755)
    (folder / "bundle.json").write_text(json.dumps({"digest": digest}))
    return folder


def place_bundle(source: Path, volume: Path) -> None:
    with bundle_on_its_way(source, volume) as place:
        place()


def tree(folder: Path) -> dict[str, object]:
    """All that is in a directory: modes, links and contents."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = stat.filemode(path.lstat().st_mode), content
    return found


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def placed_after(mount: str, source: Path, volume: Path) -> str:
    """What placing the bundle does after a mount, made in the folder of the volume: nothing, or its error."""
    script = f'cd "$0"/..; {mount}\n"$@"'
    argv = ["sh", "-ec", script, str(volume), sys.executable, "-c", _PLACE, str(source), str(volume)]
    return subprocess.run(
        [*MOUNT_NAMESPACE, *argv], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("mask", [0, 0o027, 0o077, 0o777], ids=oct)
def test_it_is_copied_with_its_launcher(source: Path, volume: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        place_bundle(source, volume)
    finally:
        os.umask(before)
    assert tree(volume / "bundle") == tree(source)
    assert (volume / "runtime").read_text() == "#!launcher\n"
    assert stat.S_IMODE((volume / "runtime").stat().st_mode) == 0o755
    assert names(volume) == {"bundle", "runtime"}


def _fail(volume: Path) -> None:
    assert not names(volume) & {"bundle", "runtime"}
    raise InitFailed(1, "the job is wrong")


def test_it_is_not_there_until_all_else_is_and_nothing_is_left_of_it_if_that_fails(
    source: Path, volume: Path
) -> None:
    with pytest.raises(InitFailed), bundle_on_its_way(source, volume):
        _fail(volume)
    assert names(volume) == set()


def _children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_that_who_copies_it_was_killed_is_an_error(source: Path, volume: Path) -> None:
    (source / "waits").mkdir()
    os.mkfifo(source / "waits/for ever")
    others = _children()  # such as what runs commands for other tests
    with bundle_on_its_way(source, volume) as place:
        for copier in _children() - others:
            os.kill(copier, signal.SIGKILL)
        with pytest.raises(OSError, match="-9"):
            place()
    assert names(volume) == set()


def _link_elsewhere(volume: Path) -> None:
    elsewhere = volume.parent / "elsewhere"
    elsewhere.mkdir()
    for name in ("bundle", ".bundle.part", "runtime"):
        (volume / name).symlink_to(elsewhere)


def _files(volume: Path) -> None:
    for name in ("bundle", ".bundle.part"):
        (volume / name).write_text("in the way")
    (volume / "runtime").mkdir()


def _changed(volume: Path) -> None:
    """What a task has made of the bundle that it was given."""
    make_source(volume / "bundle", "sha256:1")
    (volume / "bundle/bin/program").write_text("changed")
    (volume / "bundle/bin/more").write_text("more")
    (volume / "bundle/bin").chmod(0o500)


def _half(volume: Path) -> None:
    """What is left where copying was killed."""
    make_source(volume / ".bundle.part", "sha256:1")
    (volume / ".bundle.part/bin/program").write_text("half")


@pytest.mark.parametrize("leave", [_link_elsewhere, _files, _changed, _half])
def test_whatever_is_in_its_place_is_replaced(
    source: Path, volume: Path, leave: Callable[[Path], None]
) -> None:
    leave(volume)
    place_bundle(source, volume)
    assert tree(volume / "bundle") == tree(source)
    assert names(volume) == {"bundle", "runtime"}
    elsewhere = volume.parent / "elsewhere"
    assert not elsewhere.exists() or names(elsewhere) == set()


@pytest.mark.needs("mounts")
def test_a_full_disk_leaves_nothing_of_it(source: Path, volume: Path) -> None:
    left = placed_after("mount -t tmpfs -o size=100k tmpfs volume; trap 'ls -A volume' EXIT", source, volume)
    error, path = left.split(maxsplit=1)
    assert int(error) == errno.ENOSPC
    assert path.startswith(str(volume))


@pytest.mark.needs("mounts")
def test_a_mounted_bundle_is_used_as_it_is(source: Path, volume: Path) -> None:
    (volume / "bundle").mkdir()
    mount = "mount --bind source volume/bundle; mount -o remount,bind,ro volume/bundle"
    assert placed_after(mount, source, volume) == ""
    assert (volume / "runtime").read_text() == "#!launcher\n"
    assert names(volume / "bundle") == set()


@pytest.mark.needs("mounts")
def test_another_bundle_must_not_be_mounted(source: Path, volume: Path) -> None:
    make_source(volume.parent / "other", "sha256:2")
    (volume / "bundle").mkdir()
    mount = "mount --bind other volume/bundle; mount -o remount,bind,ro volume/bundle"
    assert placed_after(mount, source, volume) == f"{errno.ESTALE} {volume}/bundle"
    assert not (volume / "runtime").exists()


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("where", ["", "/bundle"], ids=["the volume", "the bundle"])
def test_a_place_from_which_nothing_can_be_executed_is_refused(
    source: Path, volume: Path, where: str
) -> None:
    (volume / "bundle").mkdir()
    mount = f"mount -t tmpfs -o noexec tmpfs volume{where}"
    assert placed_after(mount, source, volume) == f"{errno.EACCES} {volume}{where}"
    assert names(volume) == {"bundle"}


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("inside", ["", "opt/pai-runtime/bundle"], ids=["nothing", "the whole image"])
def test_what_an_old_container_runtime_mounts_in_the_place_of_a_bundle_is_refused(
    source: Path, volume: Path, inside: str
) -> None:
    other = volume.parent / "other"
    other.mkdir()
    if inside:
        make_source(other / inside, "sha256:1")
    (volume / "bundle").mkdir()
    mount = "mount --bind other volume/bundle; mount -o remount,bind,ro volume/bundle"
    assert placed_after(mount, source, volume) == f"{errno.ENOENT} {volume}/bundle"
    assert names(volume) == {"bundle"}


@pytest.mark.parametrize("contents", ["", "[]", "{}", "nonsense"])
def test_what_is_no_bundle_is_not_copied(source: Path, volume: Path, contents: str) -> None:
    (source / "bundle.json").write_text(contents)
    with pytest.raises(OSError, match=r"bundle\.json"):
        place_bundle(source, volume)
    assert names(volume) == set()


def test_a_crash_leaves_all_of_it_or_nothing(source: Path, volume: Path) -> None:
    make_source(volume / "bundle", "sha256:0")
    for name in range(2000):
        (source / "bin" / str(name)).write_text("")
    argv = [sys.executable, "-c", _PLACE, str(source), str(volume)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        while not (volume / ".bundle.part").exists() and process.poll() is None:
            pass
        process.kill()
        process.communicate()  # until who copies it has noticed
    assert not (volume / "bundle").exists() or tree(volume / "bundle") == tree(source)
    place_bundle(source, volume)
    assert tree(volume / "bundle") == tree(source)


@pytest.mark.needs("mounts")
def test_a_link_for_which_there_is_no_inode_is_named_and_not_what_it_leads_to(
    source: Path, volume: Path
) -> None:
    for number in range(20):
        (source / "bin" / f"link{number}").symlink_to("program")
    mount = "mount -t tmpfs -o nr_inodes=12,mode=777 none volume"
    code, _, path = placed_after(mount, source, volume).partition(" ")
    assert code == str(errno.ENOSPC)
    assert path.startswith(f"{volume}/")
