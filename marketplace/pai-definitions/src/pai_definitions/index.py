"""A marketplace of pai-marketplace, or its static export: items by owner and name; versions never change."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urljoin

from pai_definitions.model import Listed, WholeJob
from pai_definitions.reference import Reference, is_owner, parse_reference
from pai_definitions.web import Web
from pai_document.amounts import counted
from pai_document.problems import Position, Problem, Problems, listed
from pai_runtime.definitions import DefinitionFile, NoDefinition
from pai_task import fast_json

SUFFIX: Final = ".json"
"""What the URL of an index ends in."""
_MOST_PAGES: Final = 100
_LONGEST: Final = 200

Document = Mapping[str, Any]


class IndexSource:
    """A marketplace by the URL of its ``index.json``, beside which are its items.

    A name without an owner means the item of the first of `authors` that has one of this name; if `authors`
    are given, nobody else's items are listed.
    """

    def __init__(self, name: str, url: str, web: Web, authors: Collection[str] | None = None) -> None:
        self.name = name
        self.location = urljoin(url, ".").rstrip("/")
        self._index = url
        self._web = web
        self._authors = authors

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """Return the file of the version that a name means: by default, of the newest approved one."""
        if reference.kind != "name":
            return ()
        for owner in [reference.owner] if reference.owner else self._authors or ():
            if is_owner(owner) and (item := self._item(owner, reference.target)) is not None:
                return (self._file(reference, item, f"{self._at(owner)}/{reference.target}"),)
        return ()

    def read(self, origin: str) -> DefinitionFile | None:
        """Return None: a file of an item is at a URL of its own, which is its origin."""
        del origin
        return None

    def list(self, problems: Problems) -> Sequence[Listed]:
        """List the newest version of each item that is a definition."""
        found, others = [], 0
        for item in self._items():
            owner, name, kind = _text(item, "owner"), _text(item, "name"), _text(item, "type")
            if self._authors is not None and owner not in self._authors:
                continue
            if kind == "template":
                others += 1
                continue
            found.append(
                Listed(
                    parse_reference(f"marketplace://name/{owner}/{name}").text,
                    name,
                    kind,
                    _text(item, "latest"),
                    _text(item, "summary"),
                    author=owner,
                    title=_text(item, "title"),
                )
            )
        if others:
            amount = counted(others, "item is a job", "items are jobs")
            message = f"{amount}, and no shared prerequisites"
            problems.add(Problem("no-definitions", message, Position(f"source {self.name}"), severity="note"))
        return found

    def _items(self) -> Iterator[Document]:
        url = self._index
        for _ in range(_MOST_PAGES):
            document = self._json(url)
            items = document.get("items")
            if not isinstance(items, list):
                raise self._nonsense(url)
            yield from (each for each in items if isinstance(each, Mapping))
            following = document.get("next")
            if not following:
                return
            url = urljoin(self._index, quote(str(following), safe=""))

    def _item(self, owner: str, name: str) -> Document | None:
        try:
            return self._json(f"{self._at(owner)}/{name}{SUFFIX}")
        except NoDefinition as error:
            if error.code == "no-such-definition":
                return None
            raise

    def _file(self, reference: Reference, item: Document, below: str) -> DefinitionFile:
        version = self._version(reference, item, below)
        digest = _text(version, "digest").removeprefix("sha256:")
        at = f"{below}/{quote(_text(version, 'version'), safe='+')}.yaml"
        content = self._web.get(at, digest)
        if sha256(content).hexdigest() != digest:
            message = f"{at} has not the digest that {below}{SUFFIX} states, sha256:{digest}"
            raise NoDefinition("wrong-digest", message)
        file = DefinitionFile(at, at, at, content, author=_text(version, "author"))
        if version.get("kind") != "job":
            return file
        command = f"pai-runtime marketplace use {reference.text}"
        job = DefinitionFile(at, at, at, b"", author=file.author, job=content.decode("utf-8", "replace"))
        raise WholeJob(f"{at} is a job, and no shared prerequisite; {command} prints it", job)

    def _version(self, reference: Reference, item: Document, below: str) -> Document:
        """Return the version that a reference means. Raises `NoDefinition`."""
        found = item.get("versions")
        versions = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
        approved = [each for each in versions if each.get("status") == "approved"]
        for each in approved:
            if reference.digest:
                if each.get("digest") == f"sha256:{reference.digest}":
                    return each
            elif each.get("version") == (reference.version or item.get("latest")):
                return each
        known = [_text(each, "version") for each in approved]
        wanted = f"sha256:{reference.digest}" if reference.digest else f"version {reference.version}"
        message = f"{below}{SUFFIX} has no approved {wanted}; it has {listed(known) or 'none'}"
        raise NoDefinition("wrong-digest" if reference.digest else "no-such-definition", message, known)

    def _at(self, owner: str) -> str:
        return f"{self.location}/items/{owner}"

    def _json(self, url: str) -> Document:
        try:
            document = fast_json.loads(self._web.get(url))
        except (ValueError, RecursionError):
            raise self._nonsense(url) from None
        if not isinstance(document, Mapping) or document.get("apiVersion") != 1:
            raise self._nonsense(url)
        return document

    def _nonsense(self, url: str) -> NoDefinition:
        message = f"{url} is no file of a marketplace; check the URL of the source '{self.name}'"
        return NoDefinition("definition-unavailable", message)


def _text(document: Document, key: str) -> str:
    value = document.get(key)
    return str(value)[:_LONGEST] if isinstance(value, (str, int)) else ""
