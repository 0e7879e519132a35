"""What a job cannot have on a cluster whose pods have OpenPAI's own runtime, the first one, and not this one.

It ignores what it does not know, which would be found out after hours in the queue, or never.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import yaml

from pai_openpai.submitted_job import PLUGIN_LIST, is_of_storage
from pai_runtime.engine import Job, Problems, TaskRole
from pai_runtime.engine.jobs import secret_values, show

PLUGINS: Final = ("cmd", "git", "ssh", "teamwise_storage", "tensorboard")
"""The plugins of the first runtime."""

_NEEDED: Final = "needs pai-runtime as the cluster's runtime image (docs/runtime-image.md)"
_CODE: Final = "needs-pai-runtime"
_PARAMETERS: Final[Mapping[str, Collection[str]]] = {
    "git": ("repo_uri", "options", "clone_dir"),
    "ssh": ("jobssh", "userssh", "sshbarrier", "sshbarrierTimeout"),
    "teamwise_storage": ("storageConfigNames",),
    "tensorboard": ("logdir", "port"),
}
"""The parameters of its plugins; what else there is of ``cmd``, references name."""
_EVENTS: Final = ("taskStarts", "taskSucceeds")
_EXTRAS: Final = ("holdOnFailure", "strictCallbacks", "timeout", "onPreemption")
_ESCAPED: Final = frozenset("&<>\"'")
"""Characters that it writes as in HTML where it inserts a secret into a command."""
_REFERENCE: Final = re.compile(r"<% \$secrets\.(.*?) %>")


def check_for_first_runtime(job: Job, problems: Problems, plugins: Collection[str] = PLUGINS) -> None:
    """Report what pods with the first runtime, which has these plugins, would do otherwise or not at all."""
    for name in _EXTRAS:
        value = job.value.get("extras", name)
        if value and value.data:
            problems.add(value.problem(_CODE, _NEEDED, at_key=True))
    secrets = secret_values(job.secrets)
    for role in job.roles.values():
        _check_command(role, job.uses[role.name].command.script, secrets, problems)
        for use in job.uses[role.name].uses:
            if is_of_storage(use.value):
                continue
            short = use.plugin.removeprefix(f"{PLUGIN_LIST}.")
            if short not in plugins:
                message = f"the plugin '{short}' {_NEEDED}"
                if short.endswith("storage"):
                    message += "; a storage in extras.storages does not"
                problems.add(use.locate(("plugin",)).problem(_CODE, message, found=f"'{short}'"))
                continue
            for path, message in _faults(short, use.parameters, secrets):
                problems.add(use.locate(path).problem(_CODE, message))


def _faults(
    plugin: str, parameters: Mapping[str, Any], secrets: Mapping[str, str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield what the first runtime's plugin makes otherwise of parameters, each with its path."""
    known = _PARAMETERS.get(plugin)
    for name in parameters:
        if known is not None and name not in (*known, "name"):
            yield (name,), f"the parameter {name} of {plugin} {_NEEDED}"
    callbacks = parameters.get("callbacks") if plugin == "cmd" else None
    for index, each in enumerate(callbacks if isinstance(callbacks, list) else ()):
        event = each.get("event") if isinstance(each, Mapping) else None
        if event not in _EVENTS:
            yield ("callbacks", index), f"a callback for {event} {_NEEDED}"
    if plugin == "tensorboard" and parameters and "port" not in parameters:
        yield (), f"tensorboard without the parameter port {_NEEDED}"
    if not _is_read_alike(parameters, secrets):
        message = (
            "OpenPAI's own runtime changes line breaks, backslashes and some quotes in parameters; put such"
            f" commands into a file of the image, or a repository; as they are, this {_NEEDED}"
        )
        yield (), message


def _is_read_alike(parameters: Mapping[str, Any], secrets: Mapping[str, str]) -> bool:
    """Return whether parameters are the same after they are written as Python does, and read as YAML."""

    def inserted(text: str) -> str:
        return _REFERENCE.sub(lambda found: secrets[found[1]], text)

    shown = _shown(parameters)
    if re.search(r"<% \$secrets\.[^%]*\.\d", str(shown)):
        return False  # it takes the index of a list for a name
    try:
        return bool(yaml.safe_load(inserted(str(shown))) == _mapped(shown, inserted))
    except yaml.YAMLError:
        return False


def _shown(data: Any) -> Any:
    return _mapped(data, show)


def _mapped(data: Any, function: Any) -> Any:
    """Return data with each text replaced by what the function returns for it."""
    if isinstance(data, Mapping):
        return {key: _mapped(each, function) for key, each in data.items()}
    if isinstance(data, (list, tuple)):
        return [_mapped(each, function) for each in data]
    return function(data) if isinstance(data, str) else data


def _check_command(role: TaskRole, script: str, secrets: Mapping[str, str], problems: Problems) -> None:
    for name in dict.fromkeys(_REFERENCE.findall(show(script))):
        if _ESCAPED & set(secrets.get(name, "")):
            message = (
                f"the secret '{name}' has one of the characters & < > \" ', which OpenPAI's own runtime"
                f" escapes where it inserts it; with them, this {_NEEDED}"
            )
            problems.add(role.value.at(("commands",)).problem(_CODE, message))
