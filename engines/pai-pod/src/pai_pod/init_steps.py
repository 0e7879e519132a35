"""Where the init steps are: those of this distribution, and those that others bring by entry points."""

from importlib import import_module
from typing import Final

from pai_pod.errors import InitFailed
from pai_pod.made import Made
from pai_pod.steps import GROUP, Pod
from pai_runtime.document.problems import InvalidInput
from pai_runtime.host.blame import PluginError, blamed
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.metadata import entry_points
from pai_runtime.host.own_modules import import_entry
from pai_runtime.task.exit_codes import INIT_FAILED
from pai_runtime.task.record import record

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
"""The steps of FrameworkController's pods, skipped in others, and the distribution that brings them."""

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


def run_step(name: str, pod: Pod, made: Made) -> Made:
    """Run the step of this name, and return the results with its own. Raises `InitFailed`."""
    if name in _OWN:
        run = import_module(f"pai_pod.steps.{_OWN[name]}").run
        return made.after(run(pod, *made.arguments(run)))
    try:
        step = brought_step(name, pod.host)
    except Unavailable as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    if step is None:
        install = f", such as with the distribution {OF_FRAMEWORKS[name]}" if name in OF_FRAMEWORKS else ""
        raise InitFailed(INIT_FAILED, f"it is not installed here; expected it in the image{install}")
    return _run_brought(name, step, pod, made)


def _run_brought(name: str, step: BroughtStep, pod: Pod, made: Made) -> Made:
    try:
        pod.host.load(step.plugin)
        with blamed(step.plugin, f"init step {name}", InitFailed, InvalidInput, OSError):
            run = import_entry(step.plugin.code, step.module).run
            return made.after(run(pod, *made.arguments(run)))
    except PluginError as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    finally:
        pod.log.pass_on()
