"""OpenSSH and git in a bundle: they are in it where a plugin asks for them, and run in any image."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pai_pod.bundle import programs
from pai_pod.bundle.elf import read_elf
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.libraries import Libraries
from pai_pod.bundle.programs import add_programs
from pai_pod.bundle.static_programs import add_static_programs
from pai_task.paths import BUNDLE
from tests.bundle_harness import USER, Image
from tests.git_server import GitServer, git, make_repository
from tests.support import made_once

pytestmark = [
    pytest.mark.process,
    pytest.mark.needs("mounts", "bash-static", "busybox-static", "openssh-client", "openssh-server"),
]

HOSTILE = {
    "GLIBC_TUNABLES": "glibc.malloc.check=3",
    "LC_ALL": "xx_YY.UTF-8",
    "LD_AUDIT": "/hostile.so",
    "LD_LIBRARY_PATH": "/hostile",
    "LD_PRELOAD": "/hostile.so",
    "LD_TRACE_LOADED_OBJECTS": "1",
    "OPENSSL_CONF": "/hostile/openssl.cnf",
}


def _libraries(folder: Path) -> Libraries:
    loader = read_elf(Path(os.path.realpath(sys.executable))).interpreter
    assert loader is not None
    return Libraries(folder, loader)


def _add(folder: Path, *asked: str) -> list[str]:
    """Fill a folder; what is said of it."""
    said: list[str] = []
    add_programs(folder, asked, _libraries(folder), said.append)
    return said


def _make(folder: Path) -> None:
    add_static_programs(folder)
    assert _add(folder, "sshd", "git (to clone)") == []


@pytest.fixture
def image(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Nothing but these programs, for an ordinary user."""
    bundle = made_once(tmp_path_factory, "bundled-programs", _make)
    for folder in ("tmp", "dev"):
        (tmp_path / "image" / folder).mkdir(parents=True)
    (tmp_path / "image/tmp").chmod(0o1777)
    for device in ("null", "urandom"):
        (tmp_path / "image/dev" / device).touch()
    return Image(tmp_path / "image", bundle, USER)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["ssh/bin/ssh", "-V"], 0, "OpenSSH_"),
        (["ssh/bin/sshd", "-V"], 0, "OpenSSH_"),
        (["ssh/bin/scp"], 1, "usage: scp"),
        (["ssh/bin/sftp"], 1, "usage: sftp"),
        (["ssh/bin/sftp-server", "-Q", "requests"], 0, "posix-rename"),
        (["git/bin/git", "--version"], 0, "git version"),
    ],
)
@pytest.mark.parametrize("environment", [{}, HOSTILE], ids=["empty environment", "hostile environment"])
def test_a_program_runs_whatever_the_image_is(
    image: Image, argv: list[str], code: int, words: str, environment: Mapping[str, str]
) -> None:
    accounts = image.root / "passwd"
    accounts.write_text(f"me:x:{USER}:{USER}::/:/bin/sh\n")
    env = {**environment, "NSS_WRAPPER_PASSWD": "/passwd", "NSS_WRAPPER_GROUP": "/passwd"}
    ended = image.run(f"{BUNDLE}/{argv[0]}", *argv[1:], env=env)
    assert (ended.returncode, words in ended.stdout + ended.stderr) == (code, True), ended


def test_git_clones_a_repository_with_its_submodules(tmp_path: Path, image: Image) -> None:
    make_repository(tmp_path / "served/inner")
    make_repository(tmp_path / "served/outer")
    with GitServer(tmp_path / "served") as server:
        git(tmp_path / "served/outer", "submodule", "--quiet", "add", f"{server.url}/inner/.git", "inner")
        git(tmp_path / "served/outer", "commit", "--quiet", "--message", "inner")
        env = {"PATH": f"{BUNDLE}/applets", "HOME": "/tmp"}
        argv = ["clone", "--quiet", "--recurse-submodules", f"{server.url}/outer/.git", "/tmp/clone"]
        ended = image.run(f"{BUNDLE}/git/bin/git", *argv, env=env)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (image.root / "tmp/clone/inner/version").read_text() == "3\n"
    assert (image.root / "tmp/clone/.git/info/exclude").exists()  # of the templates


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        ([], set()),
        (["bash or sh", "cat", "digit"], set()),
        (["ssh (to reach other tasks)"], {"ssh"}),
        (["git", "sftp"], {"ssh", "git"}),
    ],
)
def test_what_no_plugin_asks_for_is_not_in_it(tmp_path: Path, asked: list[str], there: set[str]) -> None:
    assert _add(tmp_path, *asked) == []
    assert {path.name for path in tmp_path.iterdir()} - {"lib"} == there


def test_what_this_machine_does_not_have_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_FOLDERS", str(tmp_path))
    (ssh, git) = _add(tmp_path / "bundle", "sshd", "git")
    assert "lacks sshd, ssh, scp, sftp, sftp-server; on Debian: apt-get install openssh-server" in ssh
    assert "lacks git; on Debian: apt-get install git" in git
    assert [path.name for path in (tmp_path / "bundle").iterdir()] == ["lib"]


def test_an_sshd_that_is_not_debians_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sshd", "ssh", "scp", "sftp", "sftp-server"):
        (tmp_path / name).symlink_to("/bin/true")
    monkeypatch.setattr(programs, "_FOLDERS", str(tmp_path))
    with pytest.raises(CannotBundle, match="cannot bundle sshd: "):
        _add(tmp_path / "bundle", "sshd")
