"""``marketplace.yaml``: the sources of definitions that a user, or a cluster, has configured."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pai_definitions.reference import BadReference, parse_reference
from pai_document.configuration_files import configuration_files, read_named, user_file, written_path
from pai_document.problems import InvalidInput, Problems
from pai_document.schemas import check_value, package_schema
from pai_document.url import shown_text
from pai_document.value import Value
from pai_network.authorization import is_token
from pai_runtime.definitions import NoDefinition
from pai_runtime.host.locations import canonical
from pai_task.paths import MACHINE
from pai_task.record import record
from pai_task.regular_file import open_regular

MACHINE_CONFIGURATION: Final = Path(MACHINE, "marketplace.yaml")
"""The cluster's configuration; the user's own sources are asked first."""

SourceKind = Literal["folder", "file", "url", "marketplace"]

_KINDS: Final[Sequence[SourceKind]] = ("folder", "file", "url", "marketplace")
_MOST_TOKEN: Final = 64 * 1024


@record(frozen=True)
class SourceSettings:
    """One configured source; `place` is its absolute path or its URL, `value` the entry itself."""

    name: str
    kind: SourceKind
    place: str
    value: Value

    @property
    def authors(self) -> tuple[str, ...] | None:
        """The authors whose items are found by name; None for all authors."""
        authors = self.value.get("authors")
        return None if authors is None else tuple(each.text for each in authors.values())

    def token(self, secrets: Mapping[str, Value]) -> str | None:
        """Return the token for the source's server, None without one; `secrets` are the job's.

        Raises `InvalidInput` for an invalid token file, `NoDefinition` for a job without the secret.
        """
        if file := self.value.get("token", "file"):
            return _checked(file, _read(file, written_path(file)))
        if (name := self.value.get("token", "secret")) is None:
            return None
        secret = secrets.get(name.text)
        if secret is None:
            raise NoDefinition(
                "definition-forbidden",
                f"the source '{self.name}' needs the secret '{name.text}' of the job as its token"
                f" ({name.position}), and there is none",
            )
        return _checked(name, secret.data if isinstance(secret.data, str) else "")


def user_configuration() -> Path | None:
    """Return the path of the user's ``marketplace.yaml``; None without a home directory."""
    return user_file(MACHINE_CONFIGURATION.name)


def configurations() -> Sequence[Path]:
    """List the paths of the configuration files by precedence; they need not exist."""
    return configuration_files(MACHINE_CONFIGURATION)


def read_sources(paths: Iterable[Path]) -> Sequence[SourceSettings]:
    """Read the sources of all files that exist, in order. Raises `InvalidInput` with all problems.

    The first source of a name takes precedence.
    """
    return tuple(read_named(paths, sources_in).values())


def sources_in(root: Value) -> Sequence[SourceSettings]:
    """Return the sources in a file that has been read. Raises `InvalidInput` with all problems."""
    problems = Problems()
    check_value(root, package_schema("pai_definitions", "marketplace.schema.json"), problems)
    problems.check()
    items = root.get("sources")
    found: dict[str, SourceSettings] = {}
    for item in items.values() if items else ():
        source = _source(item, problems)
        if source and source.name in found:
            name, first = item.get("name") or item, found[source.name].value.position
            message = f"the name '{source.name}' is taken by the source at {first}"
            problems.add(name.problem("duplicate-name", message))
        elif source:
            found[source.name] = source
    problems.check()
    return tuple(found.values())


def _source(item: Value, problems: Problems) -> SourceSettings | None:
    """Return the source in an entry; None after reporting a fault."""
    kinds = [kind for kind in _KINDS if item.get(kind)]
    if len(kinds) != 1:
        expected, found = "one of folder, file, url and marketplace", " and ".join(kinds) or "none of them"
        message = f"expected {expected}, found {found}"
        problems.add(item.problem("wrong-source", message, found=found, expected=expected))
        return None
    (kind,) = kinds
    place, token = item.get(kind) or item, item.get("token")
    if (authors := item.get("authors")) and kind != "marketplace":
        problems.add(authors.problem("wrong-source", f"a {kind} has no authors; only a marketplace does"))
    if kind in ("folder", "file"):
        if token:
            problems.add(token.problem("wrong-source", f"a {kind} needs no token"))
        return SourceSettings(item.data["name"], kind, str(written_path(place)), item)
    url = _url(place, problems)
    return None if url is None else SourceSettings(item.data["name"], kind, url, item)


def _url(value: Value, problems: Problems) -> str | None:
    """Return a URL as `canonical` writes it; None after reporting that it is invalid."""
    found = f"'{shown_text(value.text)}'"
    message = f"expected a URL that begins with https:// or http://, found {found}"
    try:
        if parse_reference(value.text).kind == "url":
            return canonical(value.text)
    except BadReference as error:
        if value.text.lower().startswith(("http://", "https://")):
            message = str(error)
    problems.add(value.problem("wrong-url", message, found=found))
    return None


def _read(value: Value, path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(_MOST_TOKEN).decode("ascii", "replace").strip()
    except OSError as error:
        message = f"the token in {path} cannot be read: {error.strerror}"
        raise InvalidInput([value.problem("unreadable", message)]) from None


def _checked(value: Value, token: str) -> str:
    if not is_token(token):
        message = (
            "expected a token: one line of printable ASCII characters without spaces, found something else"
        )
        raise InvalidInput([value.problem("wrong-token", message)])
    return token
