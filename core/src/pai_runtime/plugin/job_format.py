"""The public API for job formats: what their plugins import beside `pai_runtime.plugin`.

A plugin for a job format implements the hook `pai_read_job`, and its manifest says in ``jobFormat`` which
documents are in the format. It gets such a document as values that know where they are written, and gives
back the same job of protocol version 2: values that stand where those are that they were made of, so that
what is reported of them later points there.

It is apart because reading YAML takes longer to import than the hooks of a task may take.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pai_document.document import MAX_NODES, read_document
from pai_document.problems import (
    DocumentPath,
    InvalidInput,
    Problem,
    Problems,
    Severity,
    problem_lines,
)
from pai_document.schemas import check_value, package_schema
from pai_document.secret_names import names_secret
from pai_document.value import Node, Value, new_node

__all__ = [
    "MAX_NODES",
    "DocumentPath",
    "InvalidInput",
    "Node",
    "Problem",
    "Problems",
    "Severity",
    "Value",
    "check_value",
    "names_secret",
    "new_node",
    "package_schema",
    "problem_lines",
    "read_document",
    "yaml_lines",
]


def yaml_lines(document: Mapping[str, Any], comments: Mapping[DocumentPath, Sequence[str]]) -> Iterator[str]:
    """Return the lines of a document in YAML; each of the `comments` stands before what is at its path."""
    from pai_document import yaml_text  # noqa: PLC0415 - slow, and who reads a job writes none

    return yaml_text.yaml_lines(document, comments)
