"""The public API for engines whose tasks are pods; what is not in `__all__` here is not public.

It says what init, the sidecar and the task container expect of a pod, and how to read what the sidecar
prints. Most names are imported when they are first asked for, since most commands need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from pai_task import paths
from pai_task.exit_codes import PERMANENT_INIT_CODES

if TYPE_CHECKING:
    from pai_pod import code, kept_output, told_variables
    from pai_pod.bundle.errors import CannotBundle
    from pai_pod.bundle.kept import kept_bundle
    from pai_pod.entering import enter_argv
    from pai_pod.entry import PIPED, RUNTIME_DIR
    from pai_pod.given_run import JOB_FILE, run_files
    from pai_pod.handover import Handover, hand_over
    from pai_pod.image_reference import DOCKER_HUB, BadReference, parse_reference
    from pai_pod.peer_variables import with_given_peers
    from pai_pod.peers import Peers
    from pai_pod.placement import peers_placement
    from pai_pod.ports import FIRST as FIRST_PORT
    from pai_pod.registry import Credentials
    from pai_pod.runtime_log import DECIDING_VARIABLE, FAILURE, PORT_VARIABLE, SUCCESS
    from pai_pod.task_images import TaskImage, task_images
    from pai_pod.volume import open_to_all

__all__ = [
    "DECIDING_VARIABLE",
    "DOCKER_HUB",
    "FAILURE",
    "FIRST_PORT",
    "JOB_FILE",
    "PERMANENT_INIT_CODES",
    "PIPED",
    "PORT_VARIABLE",
    "RUNTIME_DIR",
    "SUCCESS",
    "BadReference",
    "CannotBundle",
    "Credentials",
    "Handover",
    "Peers",
    "TaskImage",
    "code",
    "enter_argv",
    "hand_over",
    "kept_bundle",
    "kept_output",
    "open_to_all",
    "parse_reference",
    "paths",
    "peers_placement",
    "run_files",
    "task_images",
    "told_variables",
    "with_given_peers",
]

_MODULES: Final = ("code", "kept_output", "told_variables")
"""Public modules: of the code of a job, its output on a storage, and what the sidecar prints."""

_PLACES: Final = {
    "BadReference": ("image_reference", "BadReference"),
    "CannotBundle": ("bundle.errors", "CannotBundle"),
    "Credentials": ("registry", "Credentials"),
    "DECIDING_VARIABLE": ("runtime_log", "DECIDING_VARIABLE"),
    "DOCKER_HUB": ("image_reference", "DOCKER_HUB"),
    "FAILURE": ("runtime_log", "FAILURE"),
    "FIRST_PORT": ("ports", "FIRST"),
    "Handover": ("handover", "Handover"),
    "JOB_FILE": ("given_run", "JOB_FILE"),
    "PIPED": ("entry", "PIPED"),
    "PORT_VARIABLE": ("runtime_log", "PORT_VARIABLE"),
    "Peers": ("peers", "Peers"),
    "RUNTIME_DIR": ("entry", "RUNTIME_DIR"),
    "SUCCESS": ("runtime_log", "SUCCESS"),
    "TaskImage": ("task_images", "TaskImage"),
    "enter_argv": ("entering", "enter_argv"),
    "hand_over": ("handover", "hand_over"),
    "kept_bundle": ("bundle.kept", "kept_bundle"),
    "open_to_all": ("volume", "open_to_all"),
    "parse_reference": ("image_reference", "parse_reference"),
    "peers_placement": ("placement", "peers_placement"),
    "run_files": ("given_run", "run_files"),
    "task_images": ("task_images", "task_images"),
    "with_given_peers": ("peer_variables", "with_given_peers"),
}
"""The module of each that is imported late, and its name there."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"pai_pod.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own = _PLACES[name]
    return getattr(import_module(f"pai_pod.{module}"), own)
