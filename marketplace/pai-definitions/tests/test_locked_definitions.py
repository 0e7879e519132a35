"""With a lock file, a reference means the bytes that are locked, wherever they come from, or nothing."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from pai_definitions.cache import Cache
from pai_definitions.folder import FolderSource
from pai_definitions.library import SourceLibrary
from pai_definitions.lock import Lock, Pin, read_lock
from pai_definitions.locked import LockedLibrary, RecordingLibrary
from pai_definitions.model import Library
from pai_definitions.origins import shared_origin
from pai_definitions.reference import parse_reference
from pai_definitions.web import Web
from pai_document.problems import Position
from pai_runtime.definitions import Definition, DefinitionFile, NoDefinition
from pai_task.record import replace

HERE = Position("job.yaml", 1, 1)
URL = "https://example.org/a.yaml"
OTHER_URL = "https://example.org/more/b.yaml"


def text(name: str, more: str = "") -> bytes:
    return f"name: {name}\ntype: script\nplugin: cmd\n{more}".encode()


class World:
    """A folder with a job and one that is a source, URLs, a cache, and a policy that refuses locations."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.urls = {URL: text("a"), OTHER_URL: text("b")}
        self.asked: list[str] = []
        self.refused: tuple[str, ...] = ()
        (folder / "team").mkdir()
        (folder / "team/c.yaml").write_bytes(text("c"))
        (folder / "own.yaml").write_bytes(text("own"))

    def get(self, url: str, *, token: str | None = None) -> bytes:
        del token
        self.asked.append(url)
        if url not in self.urls:
            raise NoDefinition("definition-unavailable", url)
        return self.urls[url]

    def sources(self) -> SourceLibrary:
        def refusal(location: str) -> str | None:
            return "no" if location.startswith(self.refused or ("-",)) else None

        sources = [FolderSource("team", self.folder / "team")]
        return SourceLibrary(sources, Web(self), refusal, self.folder / "job.yaml")

    @property
    def cache(self) -> Cache:
        return Cache(self.folder / "cache")

    def locked(self, lock: Lock, *, complete: bool = True) -> LockedLibrary:
        return LockedLibrary(self.sources(), lock, self.cache, "LOCK", complete=complete)

    def lock(self, *references: str, old: Lock | None = None) -> Lock:
        """What locks these references."""
        recording = RecordingLibrary(self.locked(old or Lock("l", {}, {}), complete=False))
        for reference in references:
            find(recording, reference)
        return Lock("l", recording.shared, {})

    def resolved(self, library: Library, *references: str) -> Lock:
        """What carries the bytes of these references."""
        recording = RecordingLibrary(library)
        for reference in references:
            find(recording, reference)
        path = self.folder / "definitions.lock"
        path.write_text(recording.resolved())
        return replace(read_lock(path), is_trusted=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def find(library: Library, reference: str, above: DefinitionFile | None = None) -> Definition:
    return library.find(parse_reference(reference), above, HERE)


def code(library: Library, reference: str, above: DefinitionFile | None = None) -> tuple[str, str]:
    """Why a reference means nothing: the code and the message."""
    with pytest.raises(NoDefinition) as caught:
        find(library, reference, above)
    return caught.value.code, str(caught.value)


REMOTE = [
    pytest.param("marketplace://name/c", id="name"),
    pytest.param(URL, id="url"),
]


@pytest.mark.parametrize("reference", REMOTE)
def test_what_is_locked_is_what_it_was(world: World, reference: str) -> None:
    lock = world.lock(reference)
    (pin,) = lock.pins.values()
    found = find(world.locked(lock), reference)
    assert (pin.reference, pin.digest, pin.name) == (reference, found.file.digest, found.name)
    assert pin.origin == shared_origin(found.file.origin)


@pytest.mark.parametrize("reference", REMOTE)
def test_what_has_changed_at_its_origin_is_refused(world: World, reference: str) -> None:
    lock = world.lock(reference)
    (pin,) = lock.pins.values()
    changed = text(pin.name, "title: changed\n")
    world.urls[URL] = changed
    (world.folder / "team/c.yaml").write_bytes(changed)
    empty_cache(world)
    found, message = code(world.locked(lock), reference)
    assert found == "wrong-digest"
    for part in (pin.digest, sha256(changed).hexdigest(), "l", f"LOCK --update {pin.name}"):
        assert part in message


def empty_cache(world: World) -> None:
    for path in (world.folder / "cache").glob("*"):
        path.unlink()


def test_what_came_over_a_network_is_not_fetched_again(world: World) -> None:
    lock = world.lock(URL)
    world.urls, world.asked = {}, []
    assert find(world.locked(lock), URL).name == "a"
    assert world.asked == []


def test_what_is_tampered_with_in_the_cache_is_fetched_again(world: World) -> None:
    lock = world.lock(URL)
    world.asked = []
    for path in (world.folder / "cache").iterdir():
        path.write_bytes(text("evil"))
    assert find(world.locked(lock), URL).name == "a"
    assert world.asked == [URL]


def test_content_that_is_exchanged_in_the_cache_is_not_believed(world: World) -> None:
    world.urls[URL] = text("evil")
    world.lock(URL)
    (evil,) = (world.folder / "cache").iterdir()
    world.urls[URL] = text("a")
    lock = world.lock(URL)
    (good,) = {*(world.folder / "cache").iterdir()} - {evil}
    good.write_bytes(evil.read_bytes())
    assert find(world.locked(lock), URL).name == "a"


@pytest.mark.parametrize("reference", [URL, "marketplace://name/c"])
def test_what_is_not_locked_is_refused(world: World, reference: str) -> None:
    found, message = code(world.locked(world.lock(OTHER_URL)), reference)
    assert found == "not-locked"
    assert "LOCK" in message
    assert world.asked == [OTHER_URL]


def test_files_of_the_job_need_no_lock(world: World) -> None:
    lock = world.lock("own.yaml")
    assert lock.pins == {}
    assert find(world.locked(lock), "own.yaml").name == "own"


def test_what_definitions_name_by_a_path_is_locked_too(world: World) -> None:
    (world.folder / "team/d.yaml").write_bytes(text("d"))
    for reference, path, origin in [
        (URL, "more/b.yaml", OTHER_URL),
        ("marketplace://name/c", "d.yaml", "team:d.yaml"),
    ]:
        recording = RecordingLibrary(world.sources())
        above = find(recording, reference).file
        find(recording, path, above)
        pin = recording.shared[path, shared_origin(above.origin)]
        assert pin.origin == shared_origin(origin)
        assert code(world.locked(world.lock(reference)), path, above)[0] == "not-locked"
        locked = world.locked(Lock("l", recording.shared, {}))
        assert find(locked, path, find(locked, reference).file).file.origin == origin


def test_what_is_locked_stays_and_what_is_new_is_added(world: World) -> None:
    old = world.lock(URL)
    world.urls[URL] = text("a", "title: changed\n")
    new = world.lock(URL, OTHER_URL, old=old)
    assert new.pins[URL, ""] == old.pins[URL, ""]
    assert {reference for reference, _ in new.pins} == {URL, OTHER_URL}


def test_bytes_that_the_lock_carries_need_nothing_else(world: World) -> None:
    references = [URL, "marketplace://name/c", "own.yaml"]
    lock = world.resolved(world.sources(), *references)
    world.urls, world.asked = {}, []
    for path in ("own.yaml", "team/c.yaml"):
        (world.folder / path).unlink()
    library = world.locked(lock)
    found = [find(library, reference) for reference in references]
    assert [each.name for each in found] == ["a", "c", "own"]
    assert [each.file.own for each in found] == [False, False, True]
    assert world.asked == []
    assert world.resolved(library, *reversed(references)) == lock


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize(
    ("reference", "refused"), [(URL, "https://example.org/"), ("marketplace://name/c", os.sep)]
)
def test_a_policy_holds_for_what_is_locked(
    world: World, reference: str, refused: str, *, carried: bool
) -> None:
    lock = world.resolved(world.sources(), reference) if carried else world.lock(reference)
    world.refused = (refused,)
    assert code(world.locked(lock), reference)[0] == "definition-refused"


REDIRECTED: Mapping[str, Pin] = {
    reference: Pin(reference, "", origin, "a", "", sha256(text("a")).hexdigest(), location, own=True)
    for reference, origin, location in [
        ("marketplace://name/a", URL, ""),
        ("https://allowed.org/a.yaml", URL, ""),
        ("own.yaml", URL, ""),
        ("marketplace://name/c", URL, "https://allowed.org/"),
    ]
}


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("reference", REDIRECTED)
def test_a_lock_leads_to_nothing_that_a_policy_refuses(world: World, reference: str, *, cached: bool) -> None:
    if cached:
        world.lock(URL)
    world.refused = ("https://example.org/",)
    pin = REDIRECTED[reference]
    assert code(world.locked(Lock("l", {pin.key: pin}, {})), reference)[0] == "definition-refused"


def test_only_a_file_next_to_the_job_can_be_the_jobs_own(world: World) -> None:
    content = text("a")
    world.refused = ("https://example.org/",)
    pin = Pin("marketplace://name/a", "", URL, "a", "", sha256(content).hexdigest(), own=True)
    lock = Lock("l", {pin.key: pin}, {pin.digest: content}, is_trusted=True)
    assert code(world.locked(lock), pin.reference)[0] == "definition-refused"


def test_a_digest_in_a_reference_holds_as_well(world: World) -> None:
    reference = f"{URL}@sha256:{'0' * 64}"
    digest = sha256(text("a")).hexdigest()
    pin = Pin(reference, "", URL, "a", "", digest)
    assert code(world.locked(Lock("l", {pin.key: pin}, {})), reference)[0] == "wrong-digest"
