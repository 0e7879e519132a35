"""References such as ``<% $parameters.x %>``: what they mean in one place of a job, and their rendering.

A text that is one reference and nothing else becomes the value itself, of its own type; inside other text
a scalar is inserted as it was written. Rendering works on values, so that no value becomes syntax, of YAML
or of another reference: parameters and secrets are never looked into. The fields of prerequisites are
templates too. A secret becomes a placeholder (`pai_runtime.task.placeholders`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pai_runtime.document.document import DocumentPath, Node
from pai_runtime.document.problems import Problem, field_name, near_miss
from pai_runtime.job.model import Job, Prerequisite, TaskRole

ROOTS = ("$parameters", "$secrets", "$data", "$script", "$output", "this")

_REFERENCE = re.compile(r"<%\s*(\$\w+|this)\s*([.\[][^<>%]*)?%>")
_KEYS = re.compile(r"(?:\s*\.\s*[\w-]+|\s*\[\s*[0-9]+\s*\])*\s*")
_KEY = re.compile(r"[\w-]+")

_MOST_NESTED = 50
_LONGEST_INDEX = 9


class _NothingThere(Exception):
    """A reference to nothing: what to tell the person, the word that was not found, and those there are."""

    def __init__(self, message: str, word: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.word = word
        self.known = known


@dataclass(frozen=True)
class _Found:
    """What a reference means.

    A part of a prerequisite is a template, which is rendered in its turn: `path` is where it stands, and
    `this` means `owner` in it.
    """

    node: Node
    path: DocumentPath = ()
    owner: Prerequisite | None = None


class Renderer:
    """Renders the values that stand in one place: in a role, in a prerequisite, or in both.

    Without a role, ``$data``, ``$script`` and ``$output`` are left as they are: what they mean is not
    decided there. What is wrong is added to `problems`.
    """

    def __init__(
        self, job: Job, role: TaskRole | None, prerequisite: Prerequisite | None, problems: list[Problem]
    ) -> None:
        self._job = job
        self._role = role
        self._prerequisite = prerequisite
        self._problems = problems
        self._inside: list[Node] = []

    def value(self, node: Node, path: DocumentPath) -> Any:
        """The value of `node`, which stands at `path`, with all references in it resolved."""
        if isinstance(node.data, dict):
            return {key: self.value(child, (*path, key)) for key, child in node.children.items()}
        if isinstance(node.data, list):
            return [self.value(child, (*path, key)) for key, child in node.children.items()]
        if not isinstance(node.data, str) or "<%" not in node.data:
            return node.data
        whole = _REFERENCE.fullmatch(node.data.strip())
        if whole is None:
            return self.text(node, path)
        return self._resolved(whole, node, path, node.start, as_text=False)

    def text(self, node: Node, path: DocumentPath) -> str:
        """The same as text, for a scalar."""
        if not isinstance(node.data, str) or "<%" not in node.data:
            return node.text
        start = node.start

        def resolved(match: re.Match[str]) -> str:
            nonlocal start
            text = str(self._resolved(match, node, path, start, as_text=True))
            start = max(start, self._job.document.source.find(match[0], start, node.end) + 1)
            return text

        return _REFERENCE.sub(resolved, node.data)

    def _resolved(
        self, match: re.Match[str], node: Node, path: DocumentPath, start: int, *, as_text: bool
    ) -> Any:
        try:
            found = self._find(match[1], match[2] or "")
            if found is None:
                return match[0]
            return self._inserted(found, as_text=as_text)
        except _NothingThere as error:
            document = self._job.document
            # It is not in the source as it is if it was written with escapes, or over two lines.
            index = document.source.find(match[0], start, node.end)
            self._problems.append(
                Problem(
                    f"{match[0]} refers to nothing: {error}",
                    document.place(node) if index < 0 else document.place_at(index),
                    field_name(path),
                    suggestion=self._job.suggestions.near_miss(error.word, error.known),
                )
            )
            return match[0]

    def _inserted(self, found: _Found, *, as_text: bool) -> Any:
        node, path = found.node, found.path
        if as_text and isinstance(node.data, list) and len(node.data) == 1:
            node, path = node.children[0], (*path, 0)  # a uri may be written as a text or as a list of texts
        if as_text and isinstance(node.data, (dict, list)):
            kind = "list" if isinstance(node.data, list) else "mapping"
            raise _NothingThere(f"it is a {kind}, and only one of its values can stand inside a text")
        self._job.budget.add(node.size, self._job.document.place(node))
        if found.owner is None:
            return node.text if as_text else node.data
        if any(node is outer for outer in self._inside):
            raise _NothingThere("it refers to itself")
        if len(self._inside) >= _MOST_NESTED:
            raise _NothingThere(f"it leads through more than {_MOST_NESTED} other references")
        outer_owner, self._prerequisite = self._prerequisite, found.owner
        self._inside.append(node)
        try:
            return self.text(node, path) if as_text else self.value(node, path)
        finally:
            self._inside.pop()
            self._prerequisite = outer_owner

    def _find(self, root: str, written: str) -> _Found | None:
        """What a reference means; None for text that is not ours, or whose meaning is not decided here."""
        if not _KEYS.fullmatch(written):
            if root not in ROOTS or root == "this":  # other templates have objects named this
                return None
            raise _NothingThere(f"after {root} it needs names and indexes, such as .name or [0]")
        keys = _KEY.findall(written)
        if root == "$parameters":
            parameters = self._job.document.node(("parameters",))
            if parameters is None or parameters.data is None:
                raise _NothingThere("the job has no parameters")
            return _Found(_descend(parameters, keys, root)[0])
        if root == "$secrets":
            return _Found(self._find_secret(keys))
        if root == "this":
            if self._prerequisite is None:
                raise _NothingThere("'this' has a meaning in a prerequisite only")
            return self._find_property(self._prerequisite, keys, root)
        if root in ROOTS:
            return self._find_referred(root, keys)
        if _is_misspelt(root):
            raise _NothingThere(f"'{root}' is not known", root, ROOTS)
        return None

    def _find_secret(self, keys: list[str]) -> Node:
        secrets = self._job.secret_placeholders
        if not keys:
            raise _NothingThere("'$secrets' needs the name of a secret")
        if keys[0] not in secrets:
            message = f"there is no secret '{keys[0]}', neither in the job nor in a secrets file"
            raise _NothingThere(message, keys[0], secrets)
        return _descend(secrets[keys[0]], keys[1:], f"$secrets.{keys[0]}")[0]

    def _find_referred(self, root: str, keys: list[str]) -> _Found | None:
        if self._role is None:
            return None
        name = self._role.refers.get(root)
        if name is None:
            raise _NothingThere(f"the task role '{self._role.name}' names no {root[1:]}")
        target = self._job.prerequisites.get(name)
        return None if target is None else self._find_property(target, keys, root)

    def _find_property(self, prerequisite: Prerequisite, keys: list[str], root: str) -> _Found:
        if keys[:1] == ["parameters"] and len(keys) > 1:
            keys = keys[1:]
        if not keys:
            raise _NothingThere(f"'{root}' needs the name of a property")
        owner = self._job.owner(prerequisite, keys[0])
        place = owner.property(keys[0]) if owner else None
        if owner is None or place is None:
            message = f"neither '{prerequisite.name}' nor what it requires has '{keys[0]}'"
            raise _NothingThere(message, keys[0], map(str, prerequisite.node.children))
        path = (*owner.path, *place)
        node = owner.node
        for key in place:
            node = node.children[key]
        node, below = _descend(node, keys[1:], f"{root}.{keys[0]}")
        return _Found(node, (*path, *below), owner)


@lru_cache(maxsize=4096)
def _is_misspelt(root: str) -> bool:
    return near_miss(root, ROOTS) is not None


def _descend(node: Node, keys: list[str], above: str) -> tuple[Node, DocumentPath]:
    """The value below `node` to which `keys` lead, and its path from there."""
    path: list[str | int] = []
    for key in keys:
        if key == "0" and isinstance(node.data, str):
            continue  # a uri may be written as a text or as a list of texts
        is_list = isinstance(node.data, list)
        is_index = is_list and key.isdecimal() and len(key) <= _LONGEST_INDEX
        step = int(key) if is_index else key
        child = node.children.get(step)
        if child is None and is_list:
            raise _NothingThere(f"{above} has {len(node.data)} items, counted from 0, and no [{key}]")
        if child is None:
            raise _NothingThere(f"{above} has no '{key}'", key, map(str, node.children))
        node, above = child, f"{above}.{key}"
        path.append(step)
    return node, tuple(path)
