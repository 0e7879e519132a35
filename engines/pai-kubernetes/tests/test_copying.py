"""Files are copied from the containers of tasks, whatever these send in the place of an archive."""

import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from pai_kubernetes.run.copying import container_files
from pai_runs.copying import copy_files
from pai_runtime.runs.errors import CannotCopy
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import PlayedCluster, api_of
from tests.kubernetes.run_objects import running

MOST = 1 << 20


@pytest.fixture
def pod(server: ApiServer) -> str:
    return PlayedCluster(server).pod(status=running())


def copy(server: ApiServer, pod: str, path: str, target: Path) -> None:
    copy_files(container_files(api_of(server), pod, path), target, MOST)


def test_a_directory_and_a_file_are_copied_as_a_real_tar_archives_them(
    server: ApiServer, pod: str, tmp_path: Path
) -> None:
    work, long = tmp_path / "work", "long" * 50
    (work / "a b" / long / long).mkdir(parents=True)
    (work / "a b" / long / long / "f\u00fcr").write_bytes(b"x" * 100_000)
    (work / "a b" / "run").write_text("#!")
    (work / "a b" / "run").chmod(0o755)
    (work / "link").symlink_to("a b")
    path = str(Path(shutil.which("tar") or "").parent)
    server.program = lambda _pod, container, argv, _terminal: [
        *("env", "-C", str(work), "sh", "-c", argv[2], f"{path}:/usr/bin:/bin", argv[4]),
        container,
    ]
    for source in ("a b", "link", f"{work}/a b/"):
        copy(server, pod, source, tmp_path / "copy")
        assert (tmp_path / "copy" / long / long / "f\u00fcr").read_bytes() == b"x" * 100_000
        assert (tmp_path / "copy" / "run").stat().st_mode & 0o111
        shutil.rmtree(tmp_path / "copy")
    copy(server, pod, "a b/run", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "#!"
    with pytest.raises(CannotCopy, match="missing"):
        copy(server, pod, "missing", tmp_path / "other")
    with pytest.raises(CannotCopy, match="not all of it"):
        copy(server, pod, "/", tmp_path / "other")


def test_who_may_not_enter_tasks_is_told_the_right(server: ApiServer, pod: str, tmp_path: Path) -> None:
    server.forbidden.add(("create", "pods/exec"))
    with pytest.raises(CannotCopy, match="cannot create pods/exec"):
        copy(server, pod, "a", tmp_path / "copy")


def member(
    name: str, *, kind: bytes = tarfile.REGTYPE, data: bytes = b"", size: int = -1, link: str = ""
) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data) if size < 0 else size
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def changed(block: bytes, at: int, to: bytes) -> bytes:
    """With another content, and the checksum of that."""
    data = bytearray(block)
    data[at : at + len(to)] = to
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data)
    return bytes(data)


END, TOP = bytes(1024), member("./top", kind=tarfile.DIRTYPE)
ATTACKS: dict[str, bytes] = {
    "nothing": b"",
    "only an end": END,
    "no archive": b"x" * 512,
    "cut off": TOP + member("./top/a", data=b"x" * 600)[:700],
    "without an end": TOP,
    "parent": TOP + member("./top/../../a", data=b"x") + END,
    "absolute": TOP + member("/etc/passwd", data=b"x") + END,
    "a link": member("./top", kind=tarfile.SYMTYPE, link="/etc") + END,
    "below a link": TOP
    + member("./top/a", kind=tarfile.SYMTYPE, link="/etc")
    + member("./top/a/b", data=b"x")
    + member("./top/a", data=b"x")
    + END,
    "too large": TOP + member("./top/a", size=MOST + 1) + END,
    "a negative size": TOP + changed(member("./top/a"), 124, b"\xff" * 12) + END,
    "a name without end": changed(member("x", kind=tarfile.GNUTYPE_LONGNAME), 124, b"77777777777\0") + END,
    "more than an archive": TOP + END + b"x" * 20_000,
}
"""What a task may write; the size of a name is that of a header that says eight gigabytes."""


@pytest.mark.parametrize("data", ATTACKS.values(), ids=ATTACKS)
def test_what_is_no_archive_of_what_was_asked_for_copies_nothing(
    server: ApiServer, pod: str, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "sent").write_bytes(data)
    (tmp_path / "in").mkdir()
    server.program = lambda *_: ["cat", str(tmp_path / "sent")]
    with pytest.raises(CannotCopy):
        copy(server, pod, "top", tmp_path / "in/copy")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "sent"]


@pytest.mark.parametrize(
    "script",
    [
        "import os\nwhile True: os.write(1, bytes(65536))",
        "import os\nwhile True: os.write(2, b'x' * 65536)",
        f"import os\nos.write(1, {TOP!r})\nwhile True: os.write(1, {member('./top/a', size=1, data=b'x')!r})",
        f"import os\nwhile True: os.write(1, {member('x', kind=tarfile.GNUTYPE_LONGNAME, data=b'y')!r})",
    ],
    ids=["zeros", "errors", "one file", "names"],
)
def test_what_has_no_end_is_given_up(server: ApiServer, pod: str, tmp_path: Path, script: str) -> None:
    server.program = lambda *_: [sys.executable, "-c", script]
    with pytest.raises(CannotCopy):
        copy(server, pod, "top", tmp_path / "copy")
    assert not list(tmp_path.iterdir())
