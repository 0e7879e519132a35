"""The objects of a stand-in API server: by path, with versions, and with what has happened to them."""

import copy
import datetime as dt
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

Object = dict[str, Any]
Test = Callable[[Object], bool]

_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<below>[^/]+))?)?"
)
_REQUIREMENT = re.compile(
    r"(?P<absent>!)?(?P<key>[^\s!=,()]+)\s*"
    r"(?:(?P<sign>==?|!=)\s*(?P<value>[^\s,]*)|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?"
)


@dataclass(frozen=True)
class Target:
    """What a path names: a collection, an object of one, or something below an object, such as its log."""

    group: str
    version: str
    namespace: str
    resource: str
    name: str
    below: str

    @property
    def kind(self) -> str:
        """The path without names, by which requests are counted."""
        root = f"/apis/{self.group}/{self.version}" if self.group else "/api/v1"
        below = f"/{self.below}" if self.below else ""
        return f"{root}/{self.resource}{below}"

    @property
    def full_resource(self) -> str:
        """As messages name it: ``jobsets.jobset.x-k8s.io``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else "v1"


def target_of(path: str) -> Target | None:
    """What a path names; None for one that no API has."""
    found = _PATH.fullmatch(unquote(path))
    if found is None:
        return None
    parts = found.groupdict()
    version = parts["version"] or "v1"
    group, namespace = parts["group"] or "", parts["namespace"] or ""
    return Target(group, version, namespace, parts["resource"], parts["name"] or "", parts["below"] or "")


@dataclass(frozen=True)
class Change:
    """One thing that happened: the object before it, and after it."""

    version: int
    target: Target
    before: Object | None
    after: Object | None


Key = tuple[str, str, str]
"""The kind (path without names), namespace and name of an object."""


@dataclass
class Objects:
    """All objects. Not for two threads at once."""

    version: int = 1000
    oldest: int = 1000
    changes: list[Change] = field(default_factory=list)
    by_key: dict[Key, Object] = field(default_factory=dict)

    def get(self, target: Target) -> Object | None:
        return self.by_key.get((target.kind, target.namespace, target.name))

    def select(self, target: Target, test: Test) -> list[Object]:
        """Those of a collection that pass, by name; without a namespace, those of all namespaces."""
        return [
            each
            for (kind, namespace, _), each in sorted(self.by_key.items())
            if kind == target.kind and target.namespace in ("", namespace) and test(each)
        ]

    def put(self, target: Target, document: Mapping[str, Any]) -> Object:
        """The object as it is stored: created, or in the place of the one of its name."""
        stored: Object = copy.deepcopy(dict(document))
        metadata = stored.setdefault("metadata", {})
        key = (target.kind, target.namespace, metadata["name"])
        before = self.by_key.get(key)
        kept = before["metadata"] if before else {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        self.version += 1
        metadata |= {
            "uid": kept["uid"],
            "creationTimestamp": metadata.get("creationTimestamp") or kept["creationTimestamp"],
            "resourceVersion": str(self.version),
        }
        if target.namespace:
            metadata["namespace"] = target.namespace
        self.by_key[key] = stored
        self.changes.append(Change(self.version, target, before, stored))
        return stored

    def remove(self, target: Target, *, orphans: bool = False) -> Object | None:
        """The object that was removed, with all that it owned unless these are to be `orphans`."""
        removed = self.by_key.pop((target.kind, target.namespace, target.name), None)
        if removed is None:
            return None
        self.version += 1
        self.changes.append(Change(self.version, target, removed, None))
        for (kind, namespace, name), each in list(self.by_key.items()):
            owners = each["metadata"].get("ownerReferences", ())
            if not orphans and any(owner["uid"] == removed["metadata"]["uid"] for owner in owners):
                prefix, _, resource = kind.rpartition("/")
                owned = target_of(f"{prefix}/namespaces/{namespace}/{resource}/{name}")
                if owned:
                    self.remove(owned)
        return removed

    def events(self, target: Target, since: int, test: Test) -> Iterator[tuple[int, str, Object]]:
        """What a watch of a collection is told after a version, for objects that pass."""
        # The versions of changes grow by one, so the first that counts is found by its number.
        first = len(self.changes)
        while first and self.changes[first - 1].version > since:
            first -= 1
        for change in self.changes[first:]:
            if change.target.kind != target.kind:
                continue
            if target.namespace not in ("", change.target.namespace):
                continue
            was = change.before is not None and test(change.before)
            now = change.after is not None and test(change.after)
            if now:
                yield change.version, "MODIFIED" if was else "ADDED", change.after or {}
            elif was:
                before = copy.deepcopy(change.before or {})
                before["metadata"]["resourceVersion"] = str(change.version)
                yield change.version, "DELETED", before

    def compact(self) -> None:
        """Forget what has happened so far: a watch from before is told that it is too old."""
        self.version += 1
        self.oldest = self.version
        self.changes.clear()


def merge_patch(document: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def selecting(labels: str, fields: str) -> Test:
    """Whether an object passes a label selector and a field selector."""
    by_label = [_requirement(each) for each in re.findall(r"(?:[^,(]|\([^)]*\))+", labels)]
    by_field = [_requirement(each) for each in fields.split(",") if each]
    return lambda document: (
        all(test(document.get("metadata", {}).get("labels") or {}) for test in by_label)
        and all(test(_Fields(document)) for test in by_field)
    )


class _Fields(dict[str, str]):
    """The fields of an object by their paths: ``involvedObject.name``."""

    def get(self, key: str, default: Any = None) -> Any:
        value: Any = self
        for part in key.split("."):
            value = dict.get(value, part) if isinstance(value, dict) else None
        return default if value is None else str(value)


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    found = _REQUIREMENT.fullmatch(text.strip())
    assert found, f"no requirement of a selector: {text!r}"
    key, sign, value = found["key"], found["sign"], found["value"]
    if found["set"]:
        values = {each.strip() for each in found["values"].split(",")}
        return lambda labels: (labels.get(key) in values) == (found["set"] == "in")
    if sign:
        return lambda labels: (labels.get(key, "" if sign == "!=" else None) == value) == (sign != "!=")
    return lambda labels: (labels.get(key) is None) == bool(found["absent"])


def _now() -> str:
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
