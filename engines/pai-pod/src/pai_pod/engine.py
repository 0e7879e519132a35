"""The public API for engines whose tasks are pods; what is not in `__all__` here is not public.

It says what init, the sidecar and the task container expect of a pod, and how to read what the sidecar
prints. Each name is imported when it is first asked for, since most commands need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pai_pod.code import ARCHIVE, CODE
    from pai_pod.code import MOST_BYTES as MOST_CODE_BYTES
    from pai_pod.code import MOST_ENTRIES as MOST_CODE_ENTRIES
    from pai_pod.given_run import JOB_FILE, OVERRIDES_FILE
    from pai_pod.image_check import credentials_for
    from pai_pod.image_reference import DOCKER_HUB, BadReference, ImageReference, parse_reference
    from pai_pod.peer_variables import with_given_peers
    from pai_pod.peers import FILE as PEERS_FILE
    from pai_pod.peers import Peers
    from pai_pod.placement import peers_placement
    from pai_pod.ports import FIRST as FIRST_PORT
    from pai_pod.registry import Credentials
    from pai_pod.runtime_log import DECIDING_VARIABLE, FAILURE, PORT_VARIABLE, SUCCESS
    from pai_pod.told_variables import STATE_PREFIX, ToldFilter, is_told, read_told, without_told

__all__ = [
    "ARCHIVE",
    "CODE",
    "DECIDING_VARIABLE",
    "DOCKER_HUB",
    "FAILURE",
    "FIRST_PORT",
    "JOB_FILE",
    "MOST_CODE_BYTES",
    "MOST_CODE_ENTRIES",
    "OVERRIDES_FILE",
    "PEERS_FILE",
    "PORT_VARIABLE",
    "STATE_PREFIX",
    "SUCCESS",
    "BadReference",
    "Credentials",
    "ImageReference",
    "Peers",
    "ToldFilter",
    "credentials_for",
    "is_told",
    "parse_reference",
    "peers_placement",
    "read_told",
    "with_given_peers",
    "without_told",
]

_PLACES: Final = {
    "ARCHIVE": ("code", "ARCHIVE"),
    "BadReference": ("image_reference", "BadReference"),
    "CODE": ("code", "CODE"),
    "Credentials": ("registry", "Credentials"),
    "DECIDING_VARIABLE": ("runtime_log", "DECIDING_VARIABLE"),
    "DOCKER_HUB": ("image_reference", "DOCKER_HUB"),
    "FAILURE": ("runtime_log", "FAILURE"),
    "FIRST_PORT": ("ports", "FIRST"),
    "ImageReference": ("image_reference", "ImageReference"),
    "JOB_FILE": ("given_run", "JOB_FILE"),
    "MOST_CODE_BYTES": ("code", "MOST_BYTES"),
    "MOST_CODE_ENTRIES": ("code", "MOST_ENTRIES"),
    "OVERRIDES_FILE": ("given_run", "OVERRIDES_FILE"),
    "PEERS_FILE": ("peers", "FILE"),
    "PORT_VARIABLE": ("runtime_log", "PORT_VARIABLE"),
    "Peers": ("peers", "Peers"),
    "STATE_PREFIX": ("told_variables", "STATE_PREFIX"),
    "SUCCESS": ("runtime_log", "SUCCESS"),
    "ToldFilter": ("told_variables", "ToldFilter"),
    "credentials_for": ("image_check", "credentials_for"),
    "is_told": ("told_variables", "is_told"),
    "parse_reference": ("image_reference", "parse_reference"),
    "peers_placement": ("placement", "peers_placement"),
    "read_told": ("told_variables", "read_told"),
    "with_given_peers": ("peer_variables", "with_given_peers"),
    "without_told": ("told_variables", "without_told"),
}
"""The module of each, and its name there."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own = _PLACES[name]
    return getattr(import_module(f"pai_pod.{module}"), own)
