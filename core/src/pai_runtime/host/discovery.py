"""Which plugins are installed, from metadata alone: no plugin is imported for it."""

import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from importlib_metadata import distributions

from pai_runtime.plugin import API_VERSION
from pai_runtime.problems import Position, field_name
from pai_runtime.schemas import check, package_schema, schema_error

GROUP: Final = "pai_runtime.plugins"
APIS: Final = range(max(1, API_VERSION - 1), API_VERSION + 1)

_MOST_FAULTS = 20
"""Of a manifest, that are told in one line."""

AnyDistribution = Any
"""A distribution, whichever of the library's two interfaces it has."""

Origin = Literal["index", "path", "editable"]


@dataclass(frozen=True)
class PluginCommand:
    """A command that a plugin adds to ``pai-runtime``."""

    name: str
    module: str
    summary: str


@dataclass(frozen=True)
class Manifest:
    """What a plugin says of itself, without being imported."""

    api: int
    summary: str
    hooks: tuple[str, ...]
    programs: tuple[str, ...]
    parameters: Mapping[str, Any]


UNREADABLE: Final = Manifest(0, "", (), (), {})


@dataclass(frozen=True)
class Plugin:
    """An installed plugin.

    `value` is the entry point's (``module`` or ``module:object``), `location` the file that its module
    must be imported from. `fault` says why it cannot be used, whatever the policy; then `manifest` holds
    only what could be read of it.
    """

    id: str
    distribution: str
    version: str
    origin: Origin
    value: str
    location: Path | None
    manifest: Manifest
    fault: str | None = None

    @property
    def label(self) -> str:
        """The plugin as messages name it."""
        return f"plugin {self.id} ({self.distribution} {self.version})"

    @property
    def module(self) -> str:
        """The module that the entry point names."""
        return self.value.partition(":")[0].strip()


class InstalledPlugins(Mapping[str, tuple[Plugin, ...]]):
    """All plugins by id, sorted; more than one where several distributions claim an id.

    The ids are known at once; a plugin's files are looked at when somebody asks for it. With `manifests`
    False their manifests are not, which takes most of the time: for those who only import them.
    """

    def __init__(self, *, manifests: bool = True) -> None:
        self._manifests = manifests
        self._points: dict[str, list[tuple[AnyDistribution, str]]] = {}
        self._plugins: dict[str, tuple[Plugin, ...]] = {}
        for distribution in plugin_distributions():
            for id_, value in _entry_points(distribution):
                self._points.setdefault(id_, []).append((distribution, value))

    def __getitem__(self, id_: str) -> tuple[Plugin, ...]:
        if id_ not in self._plugins:
            plugins = [
                _plugin(distribution, id_, value, manifests=self._manifests)
                for distribution, value in self._points[id_]
            ]
            self._plugins[id_] = tuple(sorted(plugins, key=lambda plugin: plugin.label))
        return self._plugins[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._points))

    def __len__(self) -> int:
        return len(self._points)


def plugin_distributions() -> Iterator[AnyDistribution]:
    """Every distribution that brings a plugin.

    Of two with one name, the first folder on the search path hides the second. Two in one folder are left
    for the policy to refuse: nothing says which of them the code there belongs to.
    """
    folders: dict[str, str] = {}
    for distribution in distributions(path=list(dict.fromkeys(sys.path))):
        # Most distributions bring none: look before paying for the parsing of their metadata.
        if GROUP in (_text(distribution, "entry_points.txt") or ""):
            name = normalized(name_and_version(distribution)[0])
            folder = str(distribution.locate_file(""))
            if folders.setdefault(name, folder) == folder:
                yield distribution


def normalized(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_and_version(distribution: AnyDistribution) -> tuple[str, str]:
    """As its metadata says; ``?`` for what it does not say.

    Read here, since the library parses all of the metadata for each, which takes longer than all else.
    """
    found: dict[str, str] = {}
    for line in (_text(distribution, "METADATA") or _text(distribution, "PKG-INFO") or "").splitlines():
        if not line:
            break  # the description begins
        key, _, value = line.partition(":")
        found.setdefault(key.lower(), value.strip())
    return found.get("name") or "?", found.get("version") or "?"


def _text(distribution: AnyDistribution, file: str) -> str | None:
    try:
        text: str | None = distribution.read_text(file)
    except UnicodeDecodeError:
        return ""
    return text


def _entry_points(distribution: AnyDistribution) -> Iterator[tuple[str, str]]:
    """Names and values in our group, also broken ones.

    Read here, since at one broken value some versions of the library give none of the others.
    """
    section = ""
    for line in map(str.strip, (_text(distribution, "entry_points.txt") or "").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == GROUP and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def origin(distribution: AnyDistribution) -> tuple[Origin, Path | None]:
    """Where it was installed from, and for a local folder or file, its path."""
    text = _text(distribution, "direct_url.json")
    if text is None:
        return "index", None
    try:
        document = json.loads(text)
        url = urlsplit(document["url"])
        editable = document.get("dir_info", {}).get("editable", False)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return "path", None
    path = Path(unquote(url.path)) if url.scheme == "file" else None
    return ("editable" if editable else "path"), path


def _plugin(distribution: AnyDistribution, id_: str, value: str, *, manifests: bool) -> Plugin:
    name, version = name_and_version(distribution)
    where, _ = origin(distribution)
    module = value.partition(":")[0].strip()
    location, manifest, fault = None, UNREADABLE, None
    try:
        location = _module_file(distribution, module)
        if "?" in (name, version):
            fault = f"its distribution in {distribution.locate_file('')} has no name or no version"
        elif location is None:
            fault = f"its distribution has no module {module}"
        elif manifests:
            manifest, fault = _read_manifest(location, id_)
    except Exception as error:  # noqa: BLE001 - a broken distribution spoils only itself
        fault = f"its distribution is broken: {type(error).__name__}: {error}"
    return Plugin(id_, name, version, where, value, location, manifest, fault)


def _module_file(distribution: AnyDistribution, module: str) -> Path | None:
    """The file of a module, as one of the distribution's own; found without importing anything."""
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    relative = module.replace(".", "/")
    candidates = (f"{relative}/__init__.py", f"{relative}.py")
    where, source = origin(distribution)
    if where != "editable":
        names = {str(file) for file in distribution.files or ()}
        return next((Path(str(distribution.locate_file(name))) for name in candidates if name in names), None)
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or source is None:
        return None
    # A package may have no file of its own, and be in several folders.
    places = spec.submodule_search_locations or filter(None, [spec.origin])
    files = (Path(place).parent / name for place in places for name in candidates)
    own = (file for file in files if file.is_file() and file.resolve().is_relative_to(source.resolve()))
    return next(own, None)


def manifest_path(location: Path) -> Path:
    """``manifest.json`` in a plugin's package; ``<module>.manifest.json`` beside a plain module."""
    name = "manifest.json" if location.name == "__init__.py" else f"{location.stem}.manifest.json"
    return location.with_name(name)


def declared_commands(plugin: Plugin) -> tuple[PluginCommand, ...]:
    """The commands that its manifest lists, which is not checked; none if it is wrong or of another API."""
    try:
        data = json.loads(manifest_path(plugin.location or Path()).read_text("utf-8"))
        listed = data.get("commands", ()) if data["api"] in APIS else ()
        commands = tuple(PluginCommand(**command) for command in listed)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
    return commands if all(isinstance(text, str) for each in commands for text in vars(each).values()) else ()


def _read_manifest(location: Path, id_: str) -> tuple[Manifest, str | None]:
    path = manifest_path(location)
    try:
        data = json.loads(path.read_text("utf-8"))
        json.dumps(data, ensure_ascii=False).encode()
    except OSError as error:
        return UNREADABLE, f"its manifest {path} cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        return UNREADABLE, f"its manifest {path} is not JSON: {error}"
    if fault := manifest_fault(data, path, id_):
        return UNREADABLE, fault
    manifest = Manifest(
        data["api"],
        data["summary"],
        tuple(data["hooks"]),
        tuple(data.get("programs", ())),
        data["parameters"],
    )
    if manifest.api not in APIS:
        known = " and ".join(map(str, APIS))
        return manifest, f"it needs plugin API {manifest.api}; this runtime has {known}"
    return manifest, None


def manifest_fault(data: Any, path: Path, id_: str) -> str | None:
    """All that is wrong with a manifest, in one text."""
    place = Position(str(path), 1, 1)
    problems = check(data, package_schema("pai_runtime.host", "manifest.schema.json"), place)
    faults = [
        f"{problem.field or 'the whole'}: {problem.message}; expected {problem.expected}"
        for problem in problems
    ]
    if not faults:
        ids = [data["id"]] if isinstance(data["id"], str) else data["id"]
        if id_ not in ids:
            faults.append(f"{field_name(('id',))}: is {', '.join(ids)}, and the entry point is named {id_}")
        if error := schema_error(data["parameters"]):
            faults.append(f"parameters: is not a JSON Schema: {error}")
        faults += [
            f"parameters: refers to {reference}, and nothing is fetched"
            for reference in _references(data["parameters"])
            if not reference.startswith("#")
        ]
    if len(faults) > _MOST_FAULTS:
        faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} more"]
    return f"its manifest {path} is wrong: " + "; ".join(faults) if faults else None


def _references(schema: Any) -> Iterator[str]:
    """All that a schema refers to."""
    if isinstance(schema, dict):
        yield from (schema[key] for key in ("$ref", "$dynamicRef") if isinstance(schema.get(key), str))
    if isinstance(schema, (dict, list)):
        for item in schema.values() if isinstance(schema, dict) else schema:
            yield from _references(item)
