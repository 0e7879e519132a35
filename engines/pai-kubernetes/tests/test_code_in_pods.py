"""The code of a job in a pod: what is unpacked, and what is refused."""

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pai_kubernetes.manifests import run_objects
from pai_kubernetes.manifests.run_objects import CONFIG_MAPS, code_parts
from pai_kubernetes.profile import MountedStorage, Storage
from pai_kubernetes.run.reader import Reader
from pai_pod import code
from pai_pod.code import MOST_PART, MOST_PARTS, STORED, given_code, unpack_code
from pai_pod.errors import InitFailed
from pai_runtime.engines import packed_code
from pai_runtime.engines.code import Code
from pai_runtime.engines.packed_code import STORAGE, Carrier, PackedCode, pack_code, release_code
from pai_runtime.runs.errors import CannotRun
from pai_task.code_archive import ARCHIVE, MOST_BYTES, STORED_IN, code_digest, stored_name
from pai_task.folder import Folder
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.played_cluster import NAMESPACE, PlayedCluster
from tests.kubernetes.run_objects import NAME

Add = Callable[[tarfile.TarFile], None]


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, to: str = "", mode: int = 0o644
) -> Add:
    """Adds an entry to an archive."""

    def add(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode, info.mtime = kind, to, mode, 1_700_000_000
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))

    return add


def unpacked(folder: Path, *adds: Add) -> Path:
    archive, target = folder / "code.tar.gz", folder / "volume" / "code"
    with tarfile.open(archive, "w:gz") as opened:
        for add in adds:
            add(opened)
    return unpack(archive, target)


def unpack(archive: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    with Folder.at(target) as opened, archive.open("rb") as file:
        unpack_code(file, opened)
    return target


def test_files_directories_and_links_are_unpacked(tmp_path: Path) -> None:
    target = unpacked(
        tmp_path,
        member("./", kind=tarfile.DIRTYPE),
        member("./pack", kind=tarfile.DIRTYPE, mode=0o700),
        member("pack/run.sh", b"#!/bin/sh\n", mode=0o4755),
        member("deep/er/data", b"\0\xff"),
        member("latest", kind=tarfile.SYMTYPE, to="pack/run.sh"),
        member("python", kind=tarfile.SYMTYPE, to="/usr/bin/python3"),
        member("é", b"name"),
    )
    assert {str(path.relative_to(target)) for path in target.rglob("*")} == {
        "pack",
        "pack/run.sh",
        "deep",
        "deep/er",
        "deep/er/data",
        "latest",
        "python",
        "é",
    }
    assert (target / "latest").read_bytes() == b"#!/bin/sh\n"
    assert (target / "python").readlink() == Path("/usr/bin/python3")
    found = (target / "pack/run.sh").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o755, 1_700_000_000)


ATTACKS = {
    "absolute": [member("/tmp/x", b"x")],
    "above": [member("../x", b"x")],
    "above-later": [member("a/../../x", b"x")],
    "above-folder": [member("../x", kind=tarfile.DIRTYPE)],
    "nothing": [member(".", b"x")],
    "deep": [member("a/" * 300 + "x", b"x")],
    "hard-link": [member("x", kind=tarfile.LNKTYPE, to="/etc/passwd")],
    "device": [member("x", kind=tarfile.CHRTYPE)],
    "block-device": [member("x", kind=tarfile.BLKTYPE)],
    "fifo": [member("x", kind=tarfile.FIFOTYPE)],
    "unknown": [member("x", kind=b"Z")],
    "twice": [member("x", b"1"), member("x", b"2")],
    "through-a-link": [member("x", kind=tarfile.SYMTYPE, to=".."), member("x/y", b"x")],
    "over-a-link": [member("x", kind=tarfile.SYMTYPE, to="../y"), member("x", b"x")],
    "folder-over-a-link": [
        member("x", kind=tarfile.SYMTYPE, to=".."),
        member("x", kind=tarfile.DIRTYPE),
        member("x/y", b"x"),
    ],
}


@pytest.mark.parametrize("adds", ATTACKS.values(), ids=ATTACKS)
def test_what_would_leave_its_directory_is_refused(tmp_path: Path, adds: list[Add]) -> None:
    with pytest.raises((InitFailed, OSError)):
        unpacked(tmp_path, *adds)
    outside = {path.name for path in tmp_path.iterdir()} | {
        path.name for path in (tmp_path / "volume").iterdir()
    }
    assert outside == {"code.tar.gz", "volume", "code"}


def _bomb(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "code.tar.gz", "wb", 9) as file:
        info = tarfile.TarInfo("zeros")
        info.size = 1 << 40
        file.write(info.tobuf())
        for _ in range(129):
            file.write(bytes(1 << 20))


def _header(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "code.tar.gz", "wb", 9) as file:
        info = tarfile.TarInfo("pax")
        info.type, info.size = tarfile.XHDTYPE, 1 << 40
        file.write(info.tobuf())
        for _ in range(129):
            file.write(bytes(1 << 20))


def _many(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "code.tar.gz", "wb", 9) as file:
        for number in range(65):
            info = tarfile.TarInfo(str(number))
            info.size = 1 << 20
            file.write(info.tobuf() + bytes(1 << 20))


def _pax(headers: dict[str, str], kind: bytes = tarfile.REGTYPE, to: str = "") -> Callable[[Path], None]:
    def make(tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "code.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as opened:
            member("before", b"x")(opened)
            info = tarfile.TarInfo("x")
            info.type, info.linkname, info.pax_headers = kind, to, headers
            opened.addfile(info)

    return make


def _named_pax(tmp_path: Path) -> None:
    """A pax header in a pax header, and so on."""
    with gzip.open(tmp_path / "code.tar.gz", "wb", 9) as file:
        for _ in range(10_000):
            info = tarfile.TarInfo("pax")
            info.type = tarfile.XHDTYPE
            file.write(info.tobuf())


def _sparse(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "code.tar.gz", "wb") as file:
        info = tarfile.TarInfo("sparse")
        info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[386:410] = b"\xff" * 24
        header[148:156] = b"%06o\0 " % (256 + sum(header[:148]) + sum(header[156:512]))
        file.write(bytes(header) + bytes(2048))


def _empty_files(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "code.tar.gz", "wb", 1) as file:
        for number in range(2_001):
            file.write(tarfile.TarInfo(str(number)).tobuf())


def _deep_folders(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "code.tar.gz", "w:gz") as opened:
        for number in range(2_000 // 190 + 1):
            member(f"{number}/" + "a/" * 189, kind=tarfile.DIRTYPE)(opened)


def _wrong_checksum(tmp_path: Path) -> None:
    unpacked(tmp_path, member("x", os.urandom(1000)))
    archive = tmp_path / "code.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-8] + bytes(8))


def _wrong_header(tmp_path: Path) -> None:
    """Where tarfile stops, and says nothing."""
    with gzip.open(tmp_path / "code.tar.gz", "wb") as file:
        file.write(tarfile.TarInfo("one").tobuf() + b"x" * 512 + tarfile.TarInfo("two").tobuf() + bytes(1024))


def _more_after_the_end(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "code.tar.gz", "wb") as file:
        file.write(tarfile.TarInfo("one").tobuf() + bytes(1024) + tarfile.TarInfo("two").tobuf())


_MORE = [
    *(_pax({"mtime": time}) for time in ("1e400", "nan", "-1e400", "-1", "1e18", "9" * 400)),
    _pax({"linkpath": "a\0b"}, tarfile.SYMTYPE),
    _pax({}, tarfile.SYMTYPE),
    _pax({"path": "a\0b"}),
    _pax({"comment": "x" * 20_000_000}),
    _pax({"GNU.sparse.map": "1,x"}),
    _pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "y"}),
]


@pytest.mark.parametrize(
    "make",
    [
        *_MORE,
        *(_named_pax, _sparse, _empty_files, _deep_folders),
        *(_wrong_checksum, _wrong_header, _more_after_the_end),
    ],
)
def test_what_no_engine_packs_is_refused_with_little_memory_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(code, "MOST_ENTRIES", 2_000)
    make(tmp_path)
    tracemalloc.start()
    try:
        with pytest.raises(InitFailed) as failed:
            unpack(tmp_path / "code.tar.gz", tmp_path / "target2")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert "code.tar.gz" in failed.value.lines[0]


def _cut(tmp_path: Path) -> None:
    unpacked(tmp_path, member("x", os.urandom(1000)))
    archive = tmp_path / "code.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-500])


def _no_gzip(tmp_path: Path) -> None:
    (tmp_path / "code.tar.gz").write_bytes(b"PK\3\4")


def _no_tar(tmp_path: Path) -> None:
    (tmp_path / "code.tar.gz").write_bytes(gzip.compress(b"nothing of that kind" * 100))


def _broken(tmp_path: Path) -> None:
    (tmp_path / "code.tar.gz").write_bytes(gzip.compress(b"x" * 1000)[:12] + b"\xff" * 50)


@pytest.mark.parametrize("make", [_bomb, _header, _many, _cut, _no_gzip, _no_tar, _broken])
def test_what_is_no_such_archive_ends_init_and_says_so(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    with pytest.raises(InitFailed) as failed:
        unpack(tmp_path / "code.tar.gz", tmp_path / "target")
    assert failed.value.code == 1
    assert "code.tar.gz" in failed.value.lines[0]


def test_as_much_as_an_engine_packs_is_unpacked(tmp_path: Path) -> None:
    target = unpacked(tmp_path, *(member(str(number), bytes(MOST_BYTES // 4)) for number in range(4)))
    assert sum(path.stat().st_size for path in target.iterdir()) == MOST_BYTES


def test_what_the_engine_packs_is_what_is_unpacked(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "pack").mkdir(parents=True)
    (source / "pack" / "train.py").write_text("print()")
    (source / "pack" / "run.sh").write_text("true")
    (source / "pack" / "run.sh").chmod(0o755)
    (source / ("long" * 40)).write_text("name")
    (source / "latest").symlink_to("pack/train.py")
    archive = tmp_path / "code.tar.gz"
    archive.write_bytes(pack_code(Code(source), STORAGE).archive)
    target = unpack(archive, tmp_path / "target")
    for path in source.rglob("*"):
        other = target / path.relative_to(source)
        assert other.is_symlink() == path.is_symlink()
        if path.is_file():
            assert other.read_bytes() == path.read_bytes()
            assert (other.stat().st_mode & 0o100) == (path.stat().st_mode & 0o100)


def test_more_files_than_init_unpacks_are_refused_when_they_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_code, "MOST_ENTRIES", 3)
    for number in range(3):
        (tmp_path / str(number)).touch()
    pack_code(Code(tmp_path), CONFIG_MAPS)
    (tmp_path / "more").touch()
    with pytest.raises(CannotRun, match="more than 3 files"):
        pack_code(Code(tmp_path), CONFIG_MAPS)


def mounted(folder: Path, parts: Sequence[bytes]) -> Path:
    """The directory in which a pod has these parts of the code."""
    for number, part in enumerate(parts):
        (folder / "parts" / str(number)).mkdir(parents=True)
        (folder / "parts" / str(number) / ARCHIVE).write_bytes(part)
    return folder / "parts"


def packed_model(folder: Path) -> PackedCode:
    """Code that comes in three parts, with a file that does not pack well."""
    (folder / "source").mkdir()
    (folder / "source" / "model.bin").write_bytes(os.urandom(MOST_PART * 5 // 2))
    packed = pack_code(Code(folder / "source"), CONFIG_MAPS)
    assert [len(part) for part in code_parts(packed)[:-1]] == [MOST_PART, MOST_PART]
    return packed


def test_the_parts_of_large_code_are_unpacked_as_one(tmp_path: Path) -> None:
    packed = packed_model(tmp_path)
    volume = tmp_path / "volume"
    volume.mkdir()
    assert given_code(mounted(tmp_path, code_parts(packed)), packed.digest, volume) == volume / "code"
    unpacked = (volume / "code" / "model.bin").read_bytes()
    assert unpacked == (tmp_path / "source" / "model.bin").read_bytes()


@pytest.mark.parametrize(
    "change",
    {
        "none is there": lambda _: [],
        "the first is missing": lambda parts: parts[1:],
        "the last is missing": lambda parts: parts[:-1],
        "two are swapped": lambda parts: [parts[1], parts[0], parts[2]],
        "one is another's": lambda parts: [parts[0], os.urandom(MOST_PART), parts[2]],
        "one is shorter": lambda parts: [parts[0], parts[1][:-1], parts[2]],
        "there is one more": lambda parts: [*parts, b"more"],
        "all are of other code": lambda _: [gzip.compress(b"")],
    }.items(),
    ids=lambda change: change[0],
)
def test_parts_that_are_not_those_of_the_run_are_not_unpacked(
    tmp_path: Path, change: tuple[str, Callable[[Sequence[bytes]], Sequence[bytes]]]
) -> None:
    packed = packed_model(tmp_path)
    volume = tmp_path / "volume"
    volume.mkdir()
    with pytest.raises(InitFailed) as failed:
        given_code(mounted(tmp_path, change[1](code_parts(packed))), packed.digest, volume)
    assert failed.value.code == 1
    assert packed.digest in failed.value.lines[0]
    assert list(volume.iterdir()) == []


def test_code_without_a_digest_is_refused_and_no_code_needs_none(tmp_path: Path) -> None:
    assert given_code(tmp_path / "parts", "", tmp_path) is None
    with pytest.raises(InitFailed, match=code_digest(b"code")):
        given_code(mounted(tmp_path, [b"code"]), "", tmp_path)


def test_no_more_is_read_than_parts_can_be(tmp_path: Path) -> None:
    parts = mounted(tmp_path, [b"x"] * (MOST_PARTS + 1))
    with pytest.raises(InitFailed, match=code_digest(b"x" * MOST_PARTS)):
        given_code(parts, "", tmp_path)
    with (parts / "0" / ARCHIVE).open("wb") as file:
        file.truncate(MOST_PART + 1)
    with pytest.raises(OSError, match=ARCHIVE):
        given_code(parts, "", tmp_path)


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackedCode:
    """Code on a storage, since it is too large for ConfigMaps."""
    monkeypatch.setattr(run_objects, "CONFIG_MAPS", Carrier("", MOST_PART))
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "model.bin").write_bytes(os.urandom(MOST_PART * 3 // 2))
    (tmp_path / "storage").mkdir()
    packed = pack_code(Code(tmp_path / "source"), STORAGE)
    assert code_parts(packed) == []
    packed.store(str(tmp_path / "storage"), "team.first")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / STORED).symlink_to(tmp_path / "storage" / STORED_IN)
    (tmp_path / "volume").mkdir()
    return packed


def on_storage(folder: Path, packed: PackedCode) -> Path:
    return folder / "storage" / STORED_IN / stored_name(packed.digest)


def test_code_too_large_for_config_maps_comes_from_a_storage(tmp_path: Path, stored: PackedCode) -> None:
    volume = tmp_path / "volume"
    assert given_code(tmp_path / "parts", stored.digest, volume) == volume / "code"
    assert (volume / "code" / "model.bin").read_bytes() == (tmp_path / "source" / "model.bin").read_bytes()
    assert [path.name for path in volume.iterdir()] == ["code"]


def test_all_of_a_team_can_store_code_and_what_is_there_is_not_written_again(
    tmp_path: Path, stored: PackedCode
) -> None:
    file = on_storage(tmp_path, stored)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o1777
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    before = file.stat().st_ino
    stored.store(str(tmp_path / "storage"), "team.second")
    assert file.stat().st_ino == before
    file.write_bytes(b"other code")
    stored.store(str(tmp_path / "storage"), "team.second")
    assert code_digest(file.read_bytes()) == stored.digest
    assert [each for each in file.parent.iterdir() if each.stat().st_size] == [file]


def test_code_on_a_storage_goes_with_the_last_run_that_uses_it(tmp_path: Path, stored: PackedCode) -> None:
    file, storage = on_storage(tmp_path, stored), str(tmp_path / "storage")
    stored.store(storage, "other-team.first")
    for other in ("team.fir", "first", ""):
        release_code(storage, other)
    release_code(storage, "team.first")
    assert code_digest(file.read_bytes()) == stored.digest
    release_code(storage, "other-team.first")
    assert list(file.parent.iterdir()) == []
    release_code(str(tmp_path / "unmounted"), "team.first")


def test_code_on_a_storage_stays_for_a_run_that_finds_it_while_it_is_removed(
    tmp_path: Path, stored: PackedCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, move = str(tmp_path / "storage"), Folder.move

    def found_first(folder: Folder, name: str, to: Folder, new_name: str) -> None:
        monkeypatch.setattr(Folder, "move", move)
        stored.store(storage, "team.second")
        folder.move(name, to, new_name)

    monkeypatch.setattr(Folder, "move", found_first)
    release_code(storage, "team.first")
    assert code_digest(on_storage(tmp_path, stored).read_bytes()) == stored.digest
    release_code(storage, "team.second")
    assert list((tmp_path / "storage" / STORED_IN).iterdir()) == []


def test_a_run_that_is_removed_from_its_cluster_releases_its_code(
    tmp_path: Path, stored: PackedCode, server: ApiServer
) -> None:
    storage = MountedStorage(Storage("codes"), str(tmp_path / "storage"))
    stored.store(storage.mounted_at, f"{NAMESPACE}.{NAME}")
    release_code(storage.mounted_at, "team.first")
    assert on_storage(tmp_path, stored).exists()
    cluster = PlayedCluster(server)
    cluster.end("Completed")
    Reader(cluster.api, NAME, "lab", code=storage).remove()
    assert not on_storage(tmp_path, stored).exists()


def test_code_cannot_be_stored_where_there_is_no_storage(tmp_path: Path, stored: PackedCode) -> None:
    with pytest.raises(CannotRun, match="No such file"):
        stored.store(str(tmp_path / "unmounted"), "team.second")


@pytest.mark.parametrize("change", ["removed", "other", "longer", "link", "digest"])
def test_code_on_a_storage_that_is_not_that_of_the_run_is_not_unpacked(
    tmp_path: Path, stored: PackedCode, change: str
) -> None:
    file, digest = on_storage(tmp_path, stored), stored.digest
    if change == "digest":
        digest = "sha256:../../source/model.bin"
    elif change == "longer":
        file.write_bytes(file.read_bytes() + b"more")
    else:
        file.rename(tmp_path / "elsewhere")
        if change == "link":
            file.symlink_to(tmp_path / "elsewhere")
        elif change == "other":
            file.write_bytes(gzip.compress(b""))
    with pytest.raises((InitFailed, OSError)) as failed:
        given_code(tmp_path / "parts", digest, tmp_path / "volume")
    assert isinstance(failed.value, OSError) == (change == "link")
    assert list((tmp_path / "volume").iterdir()) == []


def test_code_that_config_maps_can_carry_is_not_stored(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    packed = pack_code(Code(tmp_path), STORAGE)
    assert code_parts(packed) == [packed.archive]
    assert packed == pack_code(Code(tmp_path), CONFIG_MAPS)
