"""OpenPAI's marketplace server: items by name and id, whose ``protocol`` is a job, or a definition file."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from pai_definitions.listing import listed_definitions
from pai_definitions.model import Listed, WholeJob
from pai_definitions.reference import Reference, is_item_id
from pai_definitions.web import Web
from pai_document.amounts import counted
from pai_document.document import parse_document
from pai_document.problems import InvalidInput, Position, Problem, Problems, listed
from pai_runtime.definitions import DefinitionFile, NoDefinition
from pai_task import fast_json
from pai_task.record import replace

_NO_DEFINITIONS: Final = ("template", "old")
"""Types of items that are whole jobs, not definitions."""
_MOST_ITEMS: Final = 10_000
_LONGEST: Final = 200

Item = Mapping[str, Any]


class MarketplaceSource:
    """A server at a URL, on which anybody may publish an item of any name.

    By name only approved items of `authors` are found; without these, none. What that is worth depends on
    the server: OpenPAI's takes any status that an author sends, and another author's name in a change. An
    item whose digest is asked for needs neither. If `authors` are given, nobody else's items are listed.
    """

    def __init__(self, name: str, url: str, web: Web, authors: Collection[str] | None = None) -> None:
        self.name = name
        self.location = url.rstrip("/")
        self._items_at = f"{self.location}/api/items"
        self._web = web
        self._authors = authors

    def find(self, reference: Reference) -> Sequence[DefinitionFile]:
        """Return the approved items of a name, or the one item of an id; a name is nobody's own there."""
        if reference.owner:
            return ()
        if reference.kind == "item":
            item = self._item(reference.target)
            return () if item is None else (self._file(item),)
        found = self._items(f"?name={quote(reference.target, safe='')}")
        named = [item for item in found if item.get("name") == reference.target]
        if reference.digest:
            return [self._file(item) for item in named if item.get("status") != "rejected"]
        counting = list(filter(self._counts, named))
        if named and not counting:
            raise self._not_by_name(reference.target, named)
        return [self._file(item) for item in counting]

    def _counts(self, item: Item) -> bool:
        """Return whether an item may be found by its name."""
        return _text(item, "author") in (self._authors or ()) and item.get("status") == "approved"

    def _not_by_name(self, name: str, items: Sequence[Item]) -> NoDefinition:
        ids = ", ".join(f"{_reference(item)} by {_text(item, 'author')}" for item in items[:10])
        server = f"on the server of '{self.name}'"
        if self._authors:
            why = f"is not approved {server}, or by nobody of {listed(sorted(self._authors))}"
        else:
            why = f"may be anybody's {server}: the source lists no 'authors' whose items are found by name"
        message = f"'{name}' {why}; if you trust it, ask for it by its id: {ids}"
        return NoDefinition("definition-forbidden", message)

    def read(self, origin: str) -> DefinitionFile | None:
        """Return the item at a URL; None if it is not one of this server."""
        id_ = origin.removeprefix(f"{self._items_at}/")
        item = self._item(id_) if id_ != origin else None
        return None if item is None else self._file(item)

    def list(self, problems: Problems) -> Sequence[Listed]:
        """All that is approved; by their ids what is not found by name, or has the name of another one."""
        items = [
            item
            for item in self._items("")
            if item.get("status") == "approved"
            and (self._authors is None or _text(item, "author") in self._authors)
        ]
        names = Counter(_text(item, "name") for item in items)
        found: list[Listed] = []
        others = 0
        for item in items:
            if _contents(item)[0] is None or not is_item_id(_text(item, "id")):
                others += 1
                continue
            for each in listed_definitions([self._file(item)], problems):
                is_alone = names[_text(item, "name")] == 1 and each.name == _text(item, "name")
                reference = each.reference if is_alone and self._counts(item) else _reference(item)
                summary = each.summary or _text(item, "summary")
                description = each.description or _text(item, "description")
                found.append(replace(each, reference=reference, summary=summary, description=description))
        if others:
            amount = counted(others, "item is no shared prerequisite", "items are no shared prerequisites")
            problems.add(Problem("no-definitions", amount, Position(f"source {self.name}"), severity="note"))
        return found

    def _file(self, item: Item) -> DefinitionFile:
        at = f"{self._items_at}/{quote(_text(item, 'id'), safe='')}"
        content, job = _contents(item)
        if item.get("status") == "rejected":
            raise NoDefinition(
                "definition-forbidden", f"{at} has been rejected by the server's administrators"
            )
        file = DefinitionFile(at, at, at, content or b"", author=_text(item, "author"), job=job)
        if content is not None and item.get("type") not in _NO_DEFINITIONS:
            return file
        if not job:
            raise NoDefinition("wrong-reference", f"{at} is no shared prerequisite")
        command = f"pai-runtime marketplace use {_reference(item)}"
        raise WholeJob(f"{at} is a job, and no shared prerequisite; {command} prints it", file)

    def _item(self, id_: str) -> Item | None:
        try:
            item = self._json(f"/{quote(id_, safe='')}")
        except NoDefinition as error:
            if error.code == "no-such-definition":
                return None
            raise
        if not isinstance(item, Mapping):
            raise self._nonsense()
        return {**item, "id": id_}

    def _items(self, query: str) -> Sequence[Item]:
        """Return the items of a query that are not jobs."""
        items = self._json(query)
        if not isinstance(items, list) or len(items) > _MOST_ITEMS:
            raise self._nonsense()
        return [
            item for item in items if isinstance(item, Mapping) and item.get("type") not in _NO_DEFINITIONS
        ]

    def _json(self, below: str) -> Any:
        try:
            return fast_json.loads(self._web.get(self._items_at + below))
        except (ValueError, RecursionError):
            raise self._nonsense() from None

    def _nonsense(self) -> NoDefinition:
        return NoDefinition(
            "definition-unavailable",
            f"{self._items_at} gives no answer of a marketplace server; check the URL of the source"
            f" '{self.name}'",
        )


def _contents(item: Item) -> tuple[bytes | None, str]:
    """Return the definition file in an item, if it has one, and the whole job in it; empty if it is none.

    The server requires each item to be a whole job: one with a single prerequisite of type data is that
    prerequisite.
    """
    protocol = item.get("protocol")
    if not isinstance(protocol, str):
        return None, ""
    content = protocol.encode("utf-8", "surrogatepass")
    try:
        document = parse_document(protocol, "protocol").data
    except InvalidInput:  # said to whoever uses it
        return content, ""
    if not isinstance(document, dict) or document.get("type") != "job":
        return content, ""
    found = document.get("prerequisites")
    mappings = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    data = [each for each in mappings if each.get("type") == "data"]
    return json.dumps(data[0], indent=1).encode() if len(data) == 1 else None, protocol


def _reference(item: Item) -> str:
    return f"marketplace://prerequisites/itemId/{_text(item, 'id')}"


def _text(item: Item, key: str) -> str:
    value = item.get(key)
    return str(value)[:_LONGEST] if isinstance(value, (str, int)) else ""
