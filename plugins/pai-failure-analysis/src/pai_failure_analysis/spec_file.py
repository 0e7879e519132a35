"""An exit spec in a file, the cluster's or one given on a command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pai_failure_analysis.operators_spec import ENTRIES, as_written, read_operators_spec
from pai_failure_analysis.rules import Fault, Rule, read_rules
from pai_runtime.plugin import UserError, YamlFile, read_yaml


@dataclass(frozen=True)
class SpecFile:
    """The content of an exit spec: its entries as data, their rules, and the faults of invalid ones.

    `faults` are messages that begin with ``file:line:column``. `for_controller` are the phrases of the
    entries that are for the platform's controller and not for a runtime.
    """

    entries: Sequence[Mapping[str, Any]]
    rules: Sequence[Rule]
    faults: Sequence[str]
    for_controller: Sequence[str] = ()


def read_spec_file(path: Path) -> SpecFile:
    """Read an exit spec of either form; one that is missing or invalid YAML has no entries and a fault."""
    try:
        file = read_yaml(path)
    except UserError as error:
        return SpecFile((), (), [str(error)])
    if isinstance(file.data, Mapping) and ENTRIES in file.data:
        return _operators_file(file, str(path))
    rules, faults = read_rules(file.data, str(path))
    entries = file.data if isinstance(file.data, list) else []
    said = [_said(fault, file) for fault in faults]
    return SpecFile([entry for entry in entries if isinstance(entry, Mapping)], rules, said)


def _operators_file(file: YamlFile, name: str) -> SpecFile:
    spec = read_operators_spec(file.data[ENTRIES], name)
    rules, found = read_rules(spec.entries, name)
    faults = sorted([*spec.faults, *map(as_written, found)], key=lambda fault: fault.number)
    said = [_said(fault, file, ENTRIES) for fault in faults]
    entries = spec.entries if isinstance(spec.entries, list) else []
    useful = [entry for entry in entries if isinstance(entry, Mapping) and entry.get("patterns")]
    return SpecFile(useful, rules, said, spec.for_controller)


def _said(fault: Fault, file: YamlFile, *above: str) -> str:
    path = (*above, fault.number - 1, *fault.path) if fault.number else above
    return f"{file.position(path)}: {fault.about_entry}"
