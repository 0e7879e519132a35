"""An exit spec in a file: the cluster's, or one that is given by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pai_failure_analysis.rules import Rule, read_rules
from pai_runtime.plugin import UserError, read_yaml


@dataclass(frozen=True)
class SpecFile:
    """What a file holds: its entries as data, the rules in them, and what is wrong with the others.

    `faults` are messages that begin with ``file:line:column``.
    """

    entries: Sequence[Any]
    rules: Sequence[Rule]
    faults: Sequence[str]


def read_spec_file(path: Path) -> SpecFile:
    """Read a file; one that is not there, or is no YAML, has no entries and a fault."""
    try:
        file = read_yaml(path)
    except UserError as error:
        return SpecFile((), (), [str(error)])
    rules, faults = read_rules(file.data, str(path))
    said = [
        f"{file.position((fault.number - 1, *fault.path) if fault.number else ())}: {fault.about_entry}"
        for fault in faults
    ]
    return SpecFile(file.data if isinstance(file.data, list) else (), rules, said)
