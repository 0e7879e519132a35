"""What servers have given is there again when they cannot be reached, and only if it is still the same."""

import errno
import os
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from pai_definitions.cache import Cache, user_folder
from pai_definitions.cached_fetching import CachedFetcher
from pai_definitions.fetching import Fetcher
from pai_definitions.model import Unreachable
from pai_runtime.definitions import NoDefinition
from tests.fault_server import FaultServer, Reply
from tests.git_server import Clock

A, B = b"name: a\n", b"name: b\n"
URL = "https://example.org/a.yaml"


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o7777


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "definitions"


def test_what_an_origin_gave_is_found_by_its_digest_and_as_its_latest(folder: Path) -> None:
    Cache(folder).keep(URL, A, is_latest=True)
    cache = Cache(folder)
    assert cache.pinned(URL, digest(A)) == A
    assert cache.latest(URL) == A
    assert cache.pinned(URL, digest(B)) is None
    assert cache.latest(f"{URL}?") is None
    assert cache.pinned(f"{URL}?", digest(A)) is None


def test_what_is_only_kept_is_not_what_the_origin_gave_last(folder: Path) -> None:
    cache = Cache(folder)
    cache.keep(URL, A, is_latest=True)
    cache.keep(URL, B)
    assert cache.pinned(URL, digest(B)) == B
    assert cache.latest(URL) == A


def test_an_origin_has_what_it_last_had_and_what_it_had_before_is_kept(folder: Path) -> None:
    cache = Cache(folder)
    for content in (A, B):
        cache.keep(URL, content, is_latest=True)
    assert cache.latest(URL) == B
    assert cache.pinned(URL, digest(A)) == A


def test_nothing_is_made_before_something_is_kept(folder: Path) -> None:
    cache = Cache(folder)
    assert cache.pinned(URL, digest(A)) is None
    assert cache.latest(URL) is None
    assert not folder.parent.exists()


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_the_cache_is_for_its_owner_alone(folder: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        Cache(folder).keep(URL, A, is_latest=True)
    finally:
        os.umask(before)
    assert [mode(each) for each in (folder.parent, folder)] == [0o700, 0o700]
    assert {mode(each) for each in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("name", ["", "a", "../x", digest(A).upper(), f"{digest(A)}\n", "0" * 63])
def test_what_is_no_digest_is_no_name_of_a_file(folder: Path, name: str) -> None:
    cache = Cache(folder)
    cache.keep(URL, A, is_latest=True)
    (folder.parent / "x").write_bytes(A)
    assert cache.pinned(URL, name) is None


def tampered(path: Path) -> None:
    path.write_bytes(b"name: evil\n")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def huge(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES = (tampered, cut, huge, fifo, link, directory)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("what", ["content", "origin"])
def test_what_somebody_has_changed_counts_as_missing_and_is_replaced(
    folder: Path, change: object, what: str
) -> None:
    cache = Cache(folder)
    cache.keep(URL, A, is_latest=True)
    (changed,) = [each for each in folder.iterdir() if each.name.endswith(digest(A)) == (what == "content")]
    assert callable(change)
    change(changed)
    assert cache.latest(URL) is None
    assert cache.pinned(URL, digest(A)) == (None if what == "content" else A)
    cache.keep(URL, A, is_latest=True)
    assert cache.latest(URL) == A


def in_the_way(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_bytes(b"")


def writable_by_others(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def of_the_kernel(folder: Path) -> None:
    folder.parent.symlink_to("/proc")


@pytest.mark.parametrize("prepare", [in_the_way, writable_by_others, of_the_kernel])
def test_a_cache_that_cannot_be_used_is_no_error(folder: Path, prepare: object) -> None:
    assert callable(prepare)
    prepare(folder)
    cache = Cache(folder)
    cache.keep(URL, A, is_latest=True)
    assert cache.pinned(URL, digest(A)) is None
    assert cache.latest(URL) is None


def test_what_another_user_could_have_written_is_not_read(folder: Path) -> None:
    cache = Cache(folder)
    cache.keep(URL, A, is_latest=True)
    folder.chmod(0o770)
    assert cache.latest(URL) is None


def test_a_full_disk_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double: a file system of its own, to fill it, needs rights that not everybody has."""
    cache = Cache(folder)
    cache.keep(URL, A, is_latest=True)

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    cache.keep(URL, B, is_latest=True)
    assert cache.latest(URL) == A
    assert cache.pinned(URL, digest(B)) is None


def test_what_is_larger_than_what_may_be_fetched_is_not_kept(folder: Path) -> None:
    cache = Cache(folder)
    cache.keep(URL, bytes((4 << 20) + 1), is_latest=True)
    assert cache.latest(URL) is None


def test_the_oldest_files_go_and_what_is_used_is_not_old(folder: Path) -> None:
    contents = [bytes([number]) * 1000 for number in range(10)]
    for number, content in enumerate(contents):
        Cache(folder).keep(str(number), content, is_latest=True)
    for number, content in enumerate(contents):
        name = digest(str(number).encode())
        for path in (folder / f"{name}-{digest(content)}", folder / name):
            os.utime(path, (number, number))
    assert Cache(folder).latest("0") == contents[0]
    Cache(folder, most_bytes=3500).keep("new", A, is_latest=True)
    cache = Cache(folder)
    left = [number for number in range(10) if cache.latest(str(number))]
    assert left == [0, 8, 9]
    assert cache.latest("new") == A
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    Cache(folder, most_files=2).keep("newer", B, is_latest=True)
    assert len(list(folder.iterdir())) == 2
    assert cache.latest("newer") == B


def test_many_at_once_find_what_is_right_or_nothing(folder: Path) -> None:
    contents = [bytes([number]) * 100_000 for number in range(4)]
    wrong: list[bytes] = []
    start = threading.Barrier(8)

    def work(content: bytes) -> None:
        start.wait()
        for _ in range(10):
            cache = Cache(folder)
            cache.keep(URL, content, is_latest=True)
            found = cache.latest(URL)
            if found is not None and found not in contents:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=[contents[number % 4]]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    cache = Cache(folder)
    cache.keep(URL, A, is_latest=True)
    assert cache.latest(URL) == A
    assert all(cache.pinned(URL, digest(content)) == content for content in contents)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/home/me"}, "/x/pai-runtime/definitions"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/pai-runtime/definitions"),
        ({"XDG_CACHE_HOME": "x", "HOME": "/home/me"}, "/home/me/.cache/pai-runtime/definitions"),
        ({"HOME": "/home/me"}, "/home/me/.cache/pai-runtime/definitions"),
    ],
)
def test_the_cache_is_in_the_cache_directory_of_the_user(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert user_folder() == Path(expected)


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    cache = Cache()
    cache.keep(URL, A, is_latest=True)
    assert cache.latest(URL) is None


class Cached:
    """A fetcher with a cache behind it, and what it said."""

    def __init__(self, folder: Path, *, offline: bool = False) -> None:
        self.said: list[str] = []
        clock = Clock()
        fetcher = Fetcher(offline=offline, now=lambda: clock.now, sleep=clock.sleep)
        self.get = CachedFetcher(lambda: fetcher, Cache(folder), self.said.append).get


def test_the_server_decides_what_is_current(folder: Path) -> None:
    cached = Cached(folder)
    with FaultServer(Reply(body=A), Reply(body=B)) as server:
        assert [cached.get(server.url), cached.get(server.url)] == [A, B]
    assert not cached.said


@pytest.mark.parametrize("offline", [False, True])
def test_without_the_server_what_it_gave_is_used_with_a_warning(folder: Path, *, offline: bool) -> None:
    with FaultServer(Reply(body=A)) as server:
        Cached(folder).get(server.url)
    cached = Cached(folder, offline=offline)
    assert cached.get(server.url) == A
    (warning,) = cached.said
    assert server.url in warning
    with pytest.raises(Unreachable):
        cached.get(f"{server.url}/other")


@pytest.mark.parametrize(
    ("reply", "is_used"),
    [
        (Reply(401), False),
        (Reply(403), False),
        (Reply(404), False),
        (Reply(410), False),
        (Reply(302, headers={"Location": "ftp://x/"}), False),
        (Reply(body=bytes(5 << 20)), False),
        (Reply(429), True),
        (Reply(503), True),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nname"), True),
    ],
)
def test_the_cache_is_used_if_the_server_cannot_answer_and_not_if_it_refuses(
    folder: Path, reply: Reply, *, is_used: bool
) -> None:
    cached = Cached(folder)
    with FaultServer(Reply(body=A), reply) as server:
        cached.get(server.url)
        if is_used:
            assert cached.get(server.url) == A
        else:
            with pytest.raises(NoDefinition):
                cached.get(server.url)
    assert bool(cached.said) == is_used


def test_the_limit_of_the_caller_holds_for_the_cache_too(folder: Path) -> None:
    with FaultServer(Reply(body=A)) as server:
        Cached(folder).get(server.url)
    with pytest.raises(Unreachable):
        Cached(folder).get(server.url, most=len(A) - 1)


@pytest.mark.parametrize(("reply", "requests"), [(Reply(raw=b""), 4), (Reply(503), 8)])
def test_a_server_that_does_not_answer_is_not_asked_for_each_definition(
    folder: Path, reply: Reply, requests: int
) -> None:
    cached = Cached(folder)
    with FaultServer(Reply(body=A), Reply(body=B), reply) as server:
        for path in ("a", "b"):
            cached.get(f"{server.url}/{path}")
        server.requests.clear()
        assert [cached.get(f"{server.url}/{path}") for path in ("a", "b")] == [A, B]
    assert len(server.requests) == requests
    assert len(cached.said) == 2
