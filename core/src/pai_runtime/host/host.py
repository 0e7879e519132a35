"""The host: finds a plugin by id, and imports it once and only if every policy allows it."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import FrameType
from typing import Any

from pai_document.problems import (
    DocumentPath,
    InvalidInput,
    Location,
    Problem,
    Problems,
    Suggestions,
    near_miss,
)
from pai_document.schemas import check
from pai_document.value import Value
from pai_runtime.host.blame import PluginError, blamed, stdout_is_stderr
from pai_runtime.host.discovery import InstalledPlugins, Plugin
from pai_runtime.host.loading import LoadedPlugin, load
from pai_runtime.host.own_modules import refuse, register
from pai_runtime.host.policy import Policy, mismatch, refusal, unmatched

LONGEST_CHECK = 10
"""Timeout in seconds for checking the parameters of one use; a pattern may backtrack for ever."""


class Unavailable(Exception):
    """The exception for a plugin that cannot be used; `suggestion` is an id that was perhaps meant.

    `installed` is False for a plugin that is not there, True for one that is refused. `misspelt` means that
    the whole id is so similar to the suggestion that hardly another plugin is meant.
    """

    def __init__(
        self, message: str, suggestion: str | None = None, *, installed: bool = True, misspelt: bool = False
    ) -> None:
        super().__init__(message)
        self.suggestion = suggestion
        self.installed = installed
        self.misspelt = misspelt


class Host:
    """All plugins of this environment; one may be used if every policy allows it.

    `manifests`: see `InstalledPlugins`.
    """

    def __init__(self, *policies: Policy, manifests: bool = True) -> None:
        self._policies = policies
        self._manifests = manifests
        self._refusals: dict[str, str | None] = {}
        self._loaded: dict[str, LoadedPlugin | PluginError] = {}
        self._suggestions = Suggestions()

    @cached_property
    def installed(self) -> InstalledPlugins:
        """The installed plugins by id."""
        return InstalledPlugins(manifests=self._manifests)

    def refusal(self, id_: str) -> str | None:
        """Return why an installed plugin may not be used; None if it may."""
        if id_ not in self._refusals:
            self._refusals[id_] = refusal(self._policies, self.installed[id_])
        return self._refusals[id_]

    def location_refusal(self, location: str) -> str | None:
        """Return why shared definitions may not come from a location; None if they may."""
        policies = [policy.definitions for policy in self._policies if policy.definitions]
        if not policies:
            return None
        from pai_runtime.host.definition_policy import location_refusal  # noqa: PLC0415 - few have a policy

        return location_refusal(policies, location)

    def refusal_in_definition(self, id_: str) -> str | None:
        """Return why a shared definition may not use a plugin that a job itself may use; None if it may."""
        policies = [policy.definitions for policy in self._policies if policy.definitions]
        if not policies:
            return None
        from pai_runtime.host.definition_policy import plugin_refusal  # noqa: PLC0415 - as above

        return plugin_refusal(policies, id_)

    def find(self, id_: str, *, shared: bool = False) -> Plugin:
        """Return a plugin, not imported; `shared` if a shared definition uses it.

        Raises `Unavailable` with the reason.
        """
        if id_ not in self.installed:
            namespace, _, name = id_.rpartition(".")
            namesakes = {known.rpartition(".")[2]: known for known in self.installed}
            meant = self._suggestions.near_miss(name, namesakes)
            suggestion = namesakes[meant] if meant else None
            misspelt = suggestion and near_miss(namespace, [suggestion.rpartition(".")[0]])
            message = f"plugin {id_} is not installed"
            raise Unavailable(message, suggestion, installed=False, misspelt=bool(misspelt))
        if reason := self.refusal(id_) or (self.refusal_in_definition(id_) if shared else None):
            labels = " and ".join(plugin.label for plugin in self.installed[id_])
            raise Unavailable(
                f"{labels} {'is' if len(self.installed[id_]) == 1 else 'are'} refused: {reason}"
            )
        return self.installed[id_][0]

    def first(self, is_for: Callable[[Plugin], bool]) -> str | None:
        """Return the id of the first usable plugin of a kind, else of the first refused one, else None.

        `is_for` tells the kind by the manifest.
        """
        return self._first(self._ids(is_for))

    def only(self, is_for: Callable[[Plugin], bool], what: str) -> str | None:
        """Return an id as `first` does; raise `Unavailable` if several distributions have usable ones.

        Which comes first is no more than the order of names, and must not say whose code answers. `what` is
        what they provide.
        """
        ids = self._ids(is_for)
        owners = sorted({self.installed[id_][0].distribution for id_ in ids if self.refusal(id_) is None})
        if len(owners) > 1:
            raise Unavailable(
                f"{what} is provided by several distributions: {', '.join(owners)}; uninstall all but one, "
                "or let a policy choose"
            )
        return self._first(ids)

    def _ids(self, is_for: Callable[[Plugin], bool]) -> list[str]:
        return [id_ for id_, claimants in self.installed.items() if is_for(claimants[0])]

    def _first(self, ids: list[str]) -> str | None:
        return next((id_ for id_ in ids if self.refusal(id_) is None), ids[0] if ids else None)

    @property
    def unmatched_entries(self) -> Iterator[Problem]:
        """Warnings for entries of the policies that match nothing installed."""
        for policy in self._policies:
            yield from unmatched(policy, self.installed)

    def built_by(self, plugin: Plugin) -> str | None:
        """Return the workflow that a policy says has built this code of a plugin. Raises ValueError."""
        entries = (entry for policy in self._policies for entry in policy.allowed or () if entry.built_by)
        found = (each for each in entries if each.id == plugin.id and each.digest == plugin.code.digest)
        return next((entry.built_by for entry in found), None)

    @cached_property
    def defaults(self) -> Mapping[str, Value]:
        """The `default` of the policies in force, by plugin id: jobs that do not name the plugin use it too.

        Of several entries of one id, only one that matches the installed plugin counts, if that may be used.
        """
        found = {}
        for entry in (entry for policy in self._policies for entry in policy.allowed or ()):
            claimants = self.installed.get(entry.id, ())
            is_for_another = claimants and not self.refusal(entry.id) and mismatch(entry, claimants[0])
            if entry.default is not None and not is_for_another:
                found[entry.id] = entry.default
        return found

    @property
    def policy_files(self) -> list[str]:
        """The files of the policies in force."""
        return [policy.file for policy in self._policies if policy.file is not None]

    @property
    def usable(self) -> Iterator[Plugin]:
        """All plugins that may be used, by id."""
        for id_ in self.installed:
            if self.refusal(id_) is None:
                yield self.installed[id_][0]

    @cached_property
    def refused(self) -> tuple[str, ...]:
        """The names of the distributions that bring plugins of which none may be used."""
        usable = {plugin.distribution for plugin in self.usable}
        return tuple(sorted({code.distribution for code in self.installed.codes} - usable))

    def load(self, plugin: Plugin) -> LoadedPlugin:
        """Import a plugin, once. Raises `PluginError` if that fails, the same one each time."""
        if plugin.id not in self._loaded:
            register(self.installed.codes)  # one plugin may import another
            refuse(self.refused)
            try:
                self._loaded[plugin.id] = load(plugin)
            except PluginError as error:
                self._loaded[plugin.id] = error
        loaded = self._loaded[plugin.id]
        if isinstance(loaded, PluginError):
            raise loaded
        return loaded

    def call(self, plugin: Plugin, hook: str, **arguments: object) -> Any:
        """Return what a hook of a plugin that may be used returns, called in this process.

        Its standard output goes to standard error. Raises `PluginError` if it cannot be imported or fails,
        and the `InvalidInput` that it raises.
        """
        with stdout_is_stderr():
            loaded = self.load(plugin)
            with blamed(plugin, f"hook {hook}", InvalidInput):
                return getattr(loaded.manager.hook, hook)(**arguments)


def check_parameters(
    plugin: Plugin,
    parameters: Mapping[str, Any],
    problems: Problems,
    locate: Callable[[DocumentPath], Location],
) -> None:
    """Report what is wrong with the parameters of a use, or with the manifest's schema for them.

    `locate` maps a path in the parameters to its location in the job file.
    """
    check_by_manifest(plugin, parameters, plugin.manifest.parameters, problems, locate)


def check_by_manifest(
    plugin: Plugin,
    data: Any,
    schema: Mapping[str, Any],
    problems: Problems,
    locate: Callable[[DocumentPath], Location],
) -> None:
    """Report what is wrong with data by a schema of a plugin's manifest, or with that schema.

    `locate` says where what is at a path in the data is written. It takes `LONGEST_CHECK` seconds at most; in
    a thread of a server, as long as the expressions of the schema take, which the plugin's author wrote.
    """
    try:
        with _time_limit(LONGEST_CHECK):
            check(data, schema, problems, locate)
    except Exception as error:  # noqa: BLE001 - a reference to nothing, or to itself: only using it shows
        message = f"the manifest of {plugin.label} cannot be used to check parameters: {error}"
        problems.add(Problem("unusable-manifest", message, locate(()).position))


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # no alarm reaches a thread of a server
        return

    def expired(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"timed out after {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
