"""Where the init steps are: those of this distribution, and those that others bring by entry points."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from pai_document.problems import InvalidInput
from pai_pod.errors import InitFailed
from pai_pod.made import Made
from pai_pod.steps import GROUP, Pod
from pai_runtime.host.blame import PluginError, blamed
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.metadata import entry_points
from pai_runtime.host.own_modules import import_entry
from pai_task.exit_codes import INIT_FAILED
from pai_task.record import record

RENDERER: Final = "userCommandRender"
"""The name of the init step that takes the command from the platform."""
PEER_BARRIER: Final = "peerBarrier"

_OWN: Final = {
    "jobConfig": "job_config",
    "runtimePlugins": "runtime_plugins",
    "portChecker": "port_checker",
    "imageChecker": "image_checker",
    RENDERER: "user_command_render",
    PEER_BARRIER: "peer_barrier",
}
"""The steps of this distribution: their names, and their modules in `pai_pod.steps`."""

OF_FRAMEWORKS: Final = {"frameworkBarrier": "pai-openpai", "frameworkParser": "pai-openpai"}
"""The steps of FrameworkController's pods, and the distribution that brings them."""

BUILT_IN: Final = (*OF_FRAMEWORKS, *_OWN)
"""The names of the steps that come with the runtime."""
USUAL: Final = tuple(name for name in BUILT_IN if name != PEER_BARRIER)
USUAL_WITH_PEERS: Final = ("jobConfig", PEER_BARRIER, "runtimePlugins")
"""The default steps of a pod that an engine has made from a job, in order.

It has a network of its own, in which no port is taken, and its image is pulled before it starts.
"""


@record(frozen=True)
class BroughtStep:
    """A step of another distribution: its module, and the plugin by which the policy has allowed it."""

    plugin: Plugin
    module: str


def brought_step(name: str, host: Host) -> BroughtStep | None:
    """Return the step of this name that another distribution brings; None if there is none.

    Nothing is imported. Raises `Unavailable` if the policy refuses it.
    """
    refusal = None
    for id_, claimants in host.installed.items():
        for plugin in claimants:
            module = dict(entry_points(plugin.code.installed, GROUP)).get(name)
            if module is not None:
                try:
                    return BroughtStep(host.find(id_), module)
                except Unavailable as error:
                    refusal = refusal or error
    if refusal:
        raise refusal
    return None


@record(frozen=True)
class Step:
    """A step to be run, with the plugin that brings it; None for one of this distribution."""

    name: str
    module: Any
    plugin: Plugin | None = None

    def skipped(self, pod: Pod) -> str:
        """Return why the step is skipped in this pod; empty if it is not. Raises `InitFailed`."""
        skipped = getattr(self.module, "skipped", None)
        why = self._call(lambda: skipped(pod), pod) if skipped else None
        return str(why) if why else ""

    def run(self, pod: Pod, made: Made) -> Made:
        """Run the step, and return the results with its own. Raises `InitFailed`."""
        run = self.module.run
        return made.after(self._call(lambda: run(pod, *made.arguments(run)), pod))

    def _call(self, call: Callable[[], object], pod: Pod) -> object:
        if self.plugin is None:
            return call()
        try:
            with blamed(self.plugin, f"init step {self.name}", InitFailed, InvalidInput, OSError):
                return call()
        except PluginError as error:
            raise InitFailed(INIT_FAILED, str(error)) from None
        finally:
            pod.log.pass_on()


def find_step(name: str, host: Host) -> Step:
    """Return the step of this name, imported. Raises `InitFailed`, or `Unavailable` if there is none."""
    if name in _OWN:
        return Step(name, import_module(f"pai_pod.steps.{_OWN[name]}"))
    step = brought_step(name, host)
    if step is None:
        install = f", such as with the distribution {OF_FRAMEWORKS[name]}" if name in OF_FRAMEWORKS else ""
        raise Unavailable(f"it is not installed here; expected it in the image{install}")
    try:
        host.load(step.plugin)
        with blamed(step.plugin, f"init step {name}"):
            return Step(name, import_entry(step.plugin.code, step.module), step.plugin)
    except PluginError as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
