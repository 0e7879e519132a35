"""An exit spec in a file: the cluster's, or one that is given by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pai_failure_analysis.rules import Rule, read_rules
from pai_runtime.document.document import read_document
from pai_runtime.document.problems import InvalidInput, Problem


@dataclass(frozen=True)
class SpecFile:
    """What a file holds: its entries as data, the rules in them, and what is wrong with the others."""

    entries: Sequence[Any]
    rules: Sequence[Rule]
    problems: Sequence[Problem]


def read_spec_file(path: Path) -> SpecFile:
    """Read a file; what is wrong with it, even that it is not there, is a warning."""
    try:
        root = read_document(path)
    except InvalidInput as error:
        return SpecFile((), (), [replace(problem, severity="warning") for problem in error.problems])
    rules, faults = read_rules(root.data, str(path))
    problems = [
        Problem(
            "wrong-rule",
            fault.about_entry,
            root.at((fault.number - 1, *fault.path) if fault.number else ()).position,
            severity="warning",
        )
        for fault in faults
    ]
    entries = root.data if isinstance(root.data, list) else ()
    return SpecFile(entries, rules, problems)
