"""The host: from a plugin's id to the plugin, imported once and only if it is allowed."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from pai_runtime.document import DocumentPath
from pai_runtime.host.digest import plugin_digest
from pai_runtime.host.discovery import Plugin, installed_plugins
from pai_runtime.host.loading import LoadedPlugin, PluginError, blamed, load
from pai_runtime.host.policy import Policy, refusal
from pai_runtime.plugin import EVENTS, Contribution, Shell, Task, Use
from pai_runtime.problems import Position, Problem, near_miss
from pai_runtime.schemas import check
from pai_runtime.task.placeholders import show


class Unavailable(Exception):
    """Why a plugin cannot be used; `suggestion` is an id that was perhaps meant.

    `installed` tells a plugin that is not there at all from one that is and is refused.
    """

    def __init__(self, message: str, suggestion: str | None = None, *, installed: bool = True) -> None:
        super().__init__(message)
        self.suggestion = suggestion
        self.installed = installed


class Host:
    """All plugins of this environment under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._loaded: dict[str, LoadedPlugin | PluginError] = {}

    @cached_property
    def installed(self) -> Mapping[str, tuple[Plugin, ...]]:
        """What is installed, by id."""
        return installed_plugins()

    def refusal(self, id_: str) -> str | None:
        """Why an installed plugin may not be used; None if it may."""
        return refusal(self._policy, self.installed[id_], plugin_digest)

    def find(self, id_: str) -> Plugin:
        """The plugin with this id, not imported; raises `Unavailable`."""
        if id_ not in self.installed:
            namesakes = {known.rpartition(".")[2]: known for known in self.installed}
            meant = near_miss(id_.rpartition(".")[2], namesakes)
            message = f"the plugin {id_} is not installed"
            raise Unavailable(message, namesakes[meant] if meant else None, installed=False)
        if reason := self.refusal(id_):
            labels = " and ".join(plugin.label for plugin in self.installed[id_])
            raise Unavailable(f"{labels} is refused: {reason}")
        return self.installed[id_][0]

    def load(self, plugin: Plugin) -> LoadedPlugin:
        """The plugin, imported; raises `PluginError`, the same one each time."""
        if plugin.id not in self._loaded:
            try:
                self._loaded[plugin.id] = load(plugin)
            except PluginError as error:
                self._loaded[plugin.id] = error
        loaded = self._loaded[plugin.id]
        if isinstance(loaded, PluginError):
            raise loaded
        return loaded

    def contribution(self, loaded: LoadedPlugin, use: Use, task: Task) -> Contribution:
        """What one use adds to the plan of one task; raises `PluginError`."""
        phase = "hook pai_prerequisite"
        with blamed(loaded.plugin, phase):
            answer: object = loaded.manager.hook.pai_prerequisite(use=use, task=task)
            if answer is None:
                return Contribution()
            if not isinstance(answer, Contribution):
                raise PluginError(
                    loaded.plugin, phase, f"returned {type(answer).__name__}, not a Contribution"
                )
            if fault := _fault(answer.environment, answer.steps):
                raise PluginError(loaded.plugin, phase, fault)
            return Contribution(dict(answer.environment), tuple(answer.steps))


def parameter_problems(
    plugin: Plugin,
    parameters: Mapping[str, Any],
    position: Callable[[DocumentPath], Position],
    key_position: Callable[[DocumentPath], Position],
) -> list[Problem]:
    """What is wrong with the parameters of a use, or with the manifest that they are checked against."""
    try:
        return check(parameters, plugin.manifest.parameters, position, key_position)
    except Exception as error:  # noqa: BLE001 - a reference to nothing, or to itself: only using it shows
        message = f"the manifest of {plugin.label} cannot be used to check parameters: {error}"
        return [Problem(message, position(()))]


def _fault(environment: Any, steps: Any) -> str | None:
    """What makes a contribution unfit for a plan, whatever types its author has put there."""
    if not isinstance(environment, Mapping):
        return f"has an environment that is a {type(environment).__name__}, not a mapping"
    if not isinstance(steps, (list, tuple)):
        return f"has steps that are a {type(steps).__name__}, not a list"
    faults = [
        *(_variable_fault(name, value) for name, value in environment.items()),
        *(_step_fault(step) for step in steps),
    ]
    return next(filter(None, faults), None)


def _variable_fault(name: Any, value: Any) -> str | None:
    if not (isinstance(name, str) and isinstance(value, str)):
        return f"set the variable {name!r} to a value of type {type(value).__name__}, not text"
    if not name or "=" in name or "\0" in name or _unfit(name):
        return f"set a variable with the impossible name {name!r}"
    if _unfit(value):
        return f"set the variable {name} to text with NUL or half a character in it"
    return None


def _step_fault(step: Any) -> str | None:
    if not isinstance(step, Shell) or not isinstance(step.script, str):
        return f"has a step that is a {type(step).__name__}, not a Shell with a script"
    if step.event not in EVENTS:
        return f"has a step for {step.event!r}; expected one of {', '.join(EVENTS)}"
    if step.failure_policy not in (None, "fail", "ignore"):
        return f"has a step with the failure policy {step.failure_policy!r}; expected fail or ignore"
    if _unfit(step.script):
        return f"has a step for {step.event} with NUL or half a character in it"
    return None


def _unfit(text: str) -> bool:
    """Whether no program can be given this text: a NUL that is not a placeholder's, or a lone surrogate."""
    return "\0" in show(text) or text.encode(errors="ignore").decode() != text
