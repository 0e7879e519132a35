"""Discovery of installed plugins from metadata alone, without importing any."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pai_document.problems import Problems
from pai_document.schemas import check, located_in, package_schema, schema_error
from pai_runtime.host.blame import plugin_label
from pai_runtime.host.code import GROUP, Code
from pai_runtime.host.installed import plugin_codes
from pai_runtime.host.metadata import entry_points, normalized
from pai_runtime.plugin import API_VERSION
from pai_task.record import field, record

if TYPE_CHECKING:
    from pai_runtime.host.metadata import Origin

APIS: Final = range(max(1, API_VERSION - 1), API_VERSION + 1)

_MOST_FAULTS = 20
"""Maximum number of faults of a manifest that one message lists."""


@record(frozen=True)
class PluginCommand:
    """A command that a plugin adds to ``pai-runtime``; in the help, in a `group` and with an `example`."""

    name: str
    module: str
    summary: str
    group: str = ""
    example: str = ""


@record(frozen=True)
class StorageManifest:
    """The section ``storage`` of a manifest: in which fields uses name the storage and its mount path."""

    name: str
    mount_path: str
    for_extras: bool


@record(frozen=True)
class Manifest:
    """What a plugin says of itself, without being imported.

    `default` says that every job uses it that does not name it, `callbacks` that it is the plugin of
    prerequisites that have callbacks and name no plugin. `capabilities` are those of the kernel that it needs
    in a task of root's, without ``CAP_``. `ports` are how many ports a task that uses it has by label, where
    its role does not request them. `job_format` is the schema of the documents that it reads as jobs,
    None if there are none. `engine` is what engine profiles call it; empty if it is none.
    """

    api: int
    summary: str
    hooks: tuple[str, ...]
    programs: tuple[str, ...]
    parameters: Mapping[str, Any]
    default: bool = False
    callbacks: bool = False
    storage: StorageManifest | None = None
    capabilities: tuple[str, ...] = ()
    job_format: Mapping[str, Any] | None = None
    engine: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)


UNREADABLE: Final = Manifest(0, "", (), (), {})


@record(frozen=True)
class Plugin:
    """An installed plugin.

    `code` is that of its distribution, `value` the entry point's (``module`` or ``module:object``),
    `location` the file that its module must be imported from. `fault` says why it cannot be used, whatever
    the policy; then `manifest` holds only what could be read of it.
    """

    id: str
    code: Code
    value: str
    location: Path | None
    manifest: Manifest
    fault: str | None = None

    @property
    def distribution(self) -> str:
        """The name of the plugin's distribution."""
        return self.code.distribution

    @property
    def version(self) -> str:
        """The version of the plugin's distribution."""
        return self.code.version

    @property
    def origin(self) -> "Origin":
        """Where the plugin's distribution was installed from."""
        return self.code.origin

    @property
    def digest(self) -> str | None:
        """The digest of the distribution's code; None for an editable one."""
        return self.code.pinned

    @property
    def label(self) -> str:
        """The name of the plugin in messages."""
        return plugin_label(self.id, self.code)

    @property
    def module(self) -> str:
        """The name of the module that the entry point names."""
        return self.value.partition(":")[0].strip()


class InstalledPlugins(Mapping[str, tuple[Plugin, ...]]):
    """A mapping of all installed plugins by id, sorted; several where distributions claim the same id.

    The ids are known at once; the files of a plugin are read on first access. `manifests` False skips reading
    manifests, which takes most of the time, for processes that only import plugins.
    """

    def __init__(self, *, manifests: bool = True) -> None:
        self._manifests = manifests
        self._points: dict[str, list[tuple[Code, str]]] = {}
        self._plugins: dict[str, tuple[Plugin, ...]] = {}
        self.codes: list[Code] = []
        for code in plugin_codes():
            self.codes.append(code)
            for id_, value in entry_points(code.installed, GROUP):
                self._points.setdefault(id_, []).append((code, value))

    def __getitem__(self, id_: str) -> tuple[Plugin, ...]:
        if id_ not in self._plugins:
            plugins = [
                _plugin(code, id_, value, manifests=self._manifests) for code, value in self._points[id_]
            ]
            self._plugins[id_] = tuple(sorted(plugins, key=lambda plugin: plugin.label))
        return self._plugins[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._points))

    def __len__(self) -> int:
        return len(self._points)


def distribution_code(name: str) -> Code:
    """Return the code of a distribution that has plugins. Raises ValueError if there is none of this name."""
    for code in plugin_codes():
        if normalized(code.distribution) == normalized(name):
            return code
    raise ValueError(f"no distribution {name} with plugins is installed")


def _plugin(code: Code, id_: str, value: str, *, manifests: bool) -> Plugin:
    module = value.partition(":")[0].strip()
    location, manifest, fault = None, UNREADABLE, None
    try:
        location = code.module_file(module)
        if "?" in (code.distribution, code.version):
            fault = f"its distribution in {code.folder} has no name or no version"
        elif location is None:
            fault = f"its distribution has no module {module}"
        elif manifests:
            manifest, fault = read_manifest(code, location, id_)
    except Exception as error:  # noqa: BLE001 - a broken distribution spoils only itself
        fault = f"its distribution is broken: {type(error).__name__}: {error}"
    return Plugin(id=id_, code=code, value=value, location=location, manifest=manifest, fault=fault)


def manifest_path(location: Path) -> Path:
    """Return a manifest's path: ``manifest.json`` in a package, ``MODULE.manifest.json`` beside a module."""
    module = location.name.partition(".")[0]
    return location.with_name("manifest.json" if module == "__init__" else f"{module}.manifest.json")


def declared_commands(plugin: Plugin) -> tuple[PluginCommand, ...]:
    """Return the commands in a manifest, which is not validated; none if it is faulty or of another API."""
    try:
        data = json.loads(plugin.code.read(manifest_path(plugin.location or Path())))
        listed = data.get("commands", ()) if data["api"] in APIS else ()
        commands = tuple(PluginCommand(**command) for command in listed)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
    return (
        commands if all(isinstance(value, str) for each in commands for value in vars(each).values()) else ()
    )


def read_manifest(code: Code, location: Path, id_: str) -> tuple[Manifest, str | None]:
    """Read the manifest beside a plugin's module; return it and what is wrong with it, or None."""
    path = manifest_path(location)
    try:
        data = json.loads(code.read(path))
        json.dumps(data, ensure_ascii=False).encode()
    except OSError as error:
        return UNREADABLE, f"its manifest {path} cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        return UNREADABLE, f"its manifest {path} is not JSON: {error}"
    if fault := manifest_fault(data, path, id_):
        return UNREADABLE, fault
    storage = data.get("storage")
    manifest = Manifest(
        api=data["api"],
        summary=data["summary"],
        hooks=tuple(data["hooks"]),
        programs=tuple(data.get("programs", ())),
        parameters=data["parameters"],
        default=data.get("default", False),
        callbacks=data.get("callbacks", False),
        storage=storage
        and StorageManifest(storage["name"], storage["mountPath"], storage.get("forExtras", False)),
        capabilities=tuple(data.get("capabilities", ())),
        job_format=data.get("jobFormat"),
        engine=data.get("engine", ""),
        ports=data.get("ports", {}),
    )
    if manifest.api not in APIS:
        known = " and ".join(map(str, APIS))
        return manifest, f"it needs plugin API {manifest.api}; this runtime supports {known}"
    return manifest, None


def manifest_fault(data: Any, path: Path, id_: str) -> str | None:
    """Return all faults of a manifest in one text; None if it is valid."""
    problems = Problems()
    check(data, package_schema("pai_runtime.host", "manifest.schema.json"), problems, located_in(str(path)))
    faults = [problem.text for problem in problems.in_order]
    if not faults:
        ids = [data["id"]] if isinstance(data["id"], str) else data["id"]
        if id_ not in ids:
            faults.append(f"id: expected {id_}, as the entry point is named, found {', '.join(ids)}")
        if ("jobFormat" in data) != ("pai_read_job" in data["hooks"]):
            faults.append("jobFormat: expected together with the hook pai_read_job")
        for field in ("parameters", "jobFormat"):
            faults += schema_faults(field, data.get(field, {}))
    if len(faults) > _MOST_FAULTS:
        faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} more"]
    return f"its manifest {path} is invalid: " + "; ".join(faults) if faults else None


def schema_faults(field: str, schema: Any) -> Iterator[str]:
    """Yield what keeps the JSON Schema in a field, or a file, of a plugin from being used."""
    if error := schema_error(schema):
        yield f"{field}: invalid JSON Schema: {error}"
    for reference in _references(schema):
        if not reference.startswith("#"):
            yield f"{field}: refers to {reference}, but references to other documents are not allowed"


def _references(schema: Any) -> Iterator[str]:
    """Yield all values of ``$ref`` and ``$dynamicRef`` in a schema."""
    if isinstance(schema, dict):
        yield from (schema[key] for key in ("$ref", "$dynamicRef") if isinstance(schema.get(key), str))
    if isinstance(schema, (dict, list)):
        for item in schema.values() if isinstance(schema, dict) else schema:
            yield from _references(item)
