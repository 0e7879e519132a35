"""The exit codes that OpenPAI's exit spec lists, which alone its REST server understands."""

from collections.abc import Iterator, Mapping

from pai_document.document import read_document
from pai_document.problems import InvalidInput
from pai_pod.config_files import find_file
from pai_pod.directories import Directories
from pai_pod.exit_spec import NAME
from pai_task.exit_codes import MOST_CODE, UNEXPLAINED


def listed_codes(directories: Directories) -> tuple[int, ...]:
    """Return the exit codes in the exit spec and the one for all others, in order.

    Faults of the spec are reported by the plugin that matches its rules.
    """
    path = find_file(directories.configs, NAME)
    try:
        entries = read_document(path).data if path is not None and path.is_file() else None
    except InvalidInput:
        entries = None
    return tuple(sorted({*_codes(entries), UNEXPLAINED}))


def _codes(entries: object) -> Iterator[int]:
    for entry in entries if isinstance(entries, list) else ():
        code = entry.get("containerExitCode", entry.get("code")) if isinstance(entry, Mapping) else None
        if type(code) is int and 0 < code <= MOST_CODE:
            yield code
