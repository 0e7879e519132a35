"""Execution of one init plugin: the runtime's own, a command, or an allowed plugin."""

from pai_pod.errors import InitFailed
from pai_pod.init_config import HOOK, InitPlugin
from pai_pod.init_steps import OF_FRAMEWORKS, PEER_BARRIER, run_step
from pai_pod.made import Made
from pai_pod.peers import FILE
from pai_pod.steps import Pod
from pai_runtime.document.problems import InvalidInput
from pai_runtime.host.blame import PluginError
from pai_runtime.host.discovery import Plugin
from pai_runtime.plugin import InitContainer
from pai_runtime.task.exit_codes import INIT_FAILED


def run_init_plugin(plugin: InitPlugin, pod: Pod, made: Made) -> Made:
    """Run an init plugin, and return the results so far. Raises `InitFailed`, which names it."""
    if plugin.name in OF_FRAMEWORKS and plugin.command is None and not pod.has_framework:
        pod.log.say(f"{plugin.label} is skipped: FC_FRAMEWORK_NAME is not set, so this pod has no Framework")
        return made
    if plugin.name == PEER_BARRIER and plugin.command is None and pod.peers is None:
        pod.log.say(f"{plugin.label} is skipped: there is no {FILE} in the configuration of this pod")
        return made
    pod.log.say(plugin.label)
    try:
        if plugin.command is not None:
            _run_command(plugin.command, pod)
        elif plugin.plugin is not None:
            _call(plugin.plugin, plugin, pod)
        else:
            return run_step(plugin.name, pod, made)
    except InitFailed as error:
        raise InitFailed(error.code, *(f"{plugin.label}: {line}" for line in error.lines)) from None
    return made


def _run_command(command: str, pod: Pod) -> None:
    from pai_pod.init_command import run_command  # noqa: PLC0415 - most clusters have none

    code = run_command(command, pod.directories.init, pod.environment, pod.log)
    if code:
        raise InitFailed(code, f"the command ended with exit code {code}")


def _call(plugin: Plugin, configured: InitPlugin, pod: Pod) -> None:
    container = InitContainer(
        name=configured.name,
        parameters=configured.parameters,
        folder=pod.directories.volume,
        environment=dict(pod.environment),
        say=pod.log.say,
    )
    try:
        pod.host.call(plugin, HOOK, container=container)
    except (PluginError, InvalidInput) as error:
        raise InitFailed(INIT_FAILED, *str(error).splitlines()) from None
    finally:
        pod.log.pass_on()
