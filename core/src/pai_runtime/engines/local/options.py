"""The command-line options of local runs."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pai_runtime.engines.local.environment import is_name

IsolationMode = Literal["auto", "none", "required"]


@dataclass(frozen=True)
class LocalOptions:
    """How a job is run here.

    `storages`: directories by storage name; `environment`: names of variables of ours that tasks are to have,
    beside those that the job asks for.
    """

    isolation: IsolationMode = "auto"
    storages: Mapping[str, Path] = field(default_factory=dict)
    environment: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``run`` takes for this machine."""
    parser.add_argument(
        "--isolation",
        choices=get_args(IsolationMode),
        default="auto",
        help="let each task write to its own directory only (default: auto, if the kernel allows it)",
    )
    parser.add_argument(
        "--env",
        type=_variable,
        action="append",
        default=[],
        metavar="NAME",
        help="pass this environment variable of yours to the tasks; repeatable",
    )
    parser.add_argument(
        "--storage",
        type=_storage,
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="use a local directory as this storage of the cluster; repeatable",
    )
    parser.add_argument(
        "--storage-config",
        type=Path,
        metavar="FILE",
        help="YAML file that maps names of storages to local directories; --storage takes precedence",
    )


def options_of(arguments: argparse.Namespace) -> LocalOptions:
    """What was given for `add_arguments`; raises `InvalidInput` for a file of storages that is invalid."""
    from pai_runtime.engines.local.storages import read_storages  # noqa: PLC0415 - YAML, not for ``--help``

    written = read_storages(arguments.storage_config) if arguments.storage_config else {}
    return LocalOptions(arguments.isolation, {**written, **dict(arguments.storage)}, tuple(arguments.env))


def _variable(text: str) -> str:
    """The name of a variable. An invalid one is not shown: it may be a value."""
    if not is_name(text):
        raise argparse.ArgumentTypeError(
            "expected the name of a variable, such as LANG; its value is taken from your environment"
        )
    return text


def _storage(text: str) -> tuple[str, Path]:
    """The name of a storage and its directory."""
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise argparse.ArgumentTypeError(f"expected NAME=DIR, such as data=/mnt/data, found {text!r}")
    return name, Path(folder)
