"""Exit records of tasks, in whatever text of the cluster they came through."""

import textwrap
from collections.abc import Mapping
from typing import Any, Final

import yaml

from pai_network.fields import mappings, string
from pai_runtime.engine.keeping import loads_untrusted
from pai_runtime.engine.records import read_termination_message

_START: Final = "[PAI_RUNTIME_ERROR_START]"
_END: Final = "[PAI_RUNTIME_ERROR_END]"
_MOST_CHARACTERS: Final = 1 << 16


def exit_record_in(diagnostics: str) -> Mapping[str, Any]:
    """Return the record in the diagnostics of a task; empty if there is none.

    They are a line, and YAML of the server with the messages of the containers, in any of its styles of text.
    """
    text = diagnostics[:_MOST_CHARACTERS]
    if _START not in text:
        return {}
    messages = [each for each in _messages(text.partition("\n")[2]) if _START in each]
    return _between_markers(messages[-1] if messages else text)


def record_of_log(data: bytes) -> Mapping[str, Any]:
    """Return the record in a file of the runtime, with or without the markers around it."""
    written = data.decode("utf-8", "replace")
    return _between_markers(written) if _START in written else _read(written)


def _messages(text: str) -> list[str]:
    try:
        # Not by libyaml: it crashes the interpreter where lists are nested some ten thousand deep.
        found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it makes texts, lists and mappings only
    except (yaml.YAMLError, RecursionError):
        return []
    return [string(each, "message") for each in mappings(found, "containers")]


def _between_markers(text: str) -> Mapping[str, Any]:
    _, start, rest = text.rpartition(_START)
    record, end, _ = rest.partition(_END)
    if not start or not end:
        return {}
    return _read(textwrap.dedent(record.partition("\n")[2].rpartition("\n")[0] + "\n"))


def _read(record: str) -> Mapping[str, Any]:
    """Return a record of this runtime; of one by OpenPAI's own, what is on a line of its own."""
    if not record.strip():
        return {}
    return read_termination_message(f"{_START}\n{record}{_END}\n") or {
        key: _scalar(value)
        for key, colon, value in (line.partition(": ") for line in record.splitlines())
        if colon and key.isidentifier()
    }


def _scalar(value: str) -> Any:
    try:
        found = loads_untrusted(value.encode())
    except ValueError:
        return value
    return None if isinstance(found, (dict, list)) else found
