"""The handover file: what the init container passes to the task container besides the plan.

It is a file on the volume that both share, since nothing else reaches from one to the other, and it is gone
as soon as the task container has read it.
"""

from __future__ import annotations

import os

from pai_pod.own_copy import make_own
from pai_task.fast_json import dumps, loads
from pai_task.layout import PRIVATE
from pai_task.record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pai_task.folder import Folder

NAME = f"{PRIVATE}/secrets.json"

_MOST_BYTES = 64 * 1024 * 1024


@record(frozen=True)
class Handover:
    """The content of the handover: the directory of the task's logs, and secret values by their paths.

    With `has_tai64n_names`, earlier files of the logs are to be named as by multilog. `options` are launch
    options, as JSON, where the container is one of a local run and not of a pod: its logs are then shown from
    their files, and programs are run in it from outside.
    """

    logs: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_tai64n_names: bool = False
    options: str = ""


def hand_over(folder: Folder, handover: Handover) -> None:
    """Write the handover to the task's folder, readable for any user. Raises OSError."""
    folder.make(PRIVATE)
    document = {
        "logs": handover.logs,
        "secrets": dict(handover.secrets),
        "tai64n": handover.has_tai64n_names,
        "options": handover.options,
    }
    folder.write(NAME, dumps(document), mode=0o600)
    # The volume is this pod's alone, and the user of the task's image may be any.
    with folder.folder(PRIVATE) as private:
        os.chmod(private.descriptor, 0o777)  # noqa: S103 - see above
    fd = folder.open(NAME)
    try:
        os.fchmod(fd, 0o666)
    finally:
        os.close(fd)


def take_over(folder: Folder) -> Handover:
    """Read and remove the handover, and make other private files accessible to the task's user only.

    Raises OSError, `FileNotFoundError` if it was taken before, and `ValueError`.
    """
    text = folder.read(NAME, _MOST_BYTES)
    folder.unlink(NAME)
    make_own(folder, PRIVATE)
    try:
        document: Any = loads(text)
    except RecursionError:
        document = None
    if not _is_handover(document):
        raise ValueError(f"{folder.where}/{NAME} is not what the init container writes")
    return Handover(document["logs"], document["secrets"], document["tai64n"], document["options"])


def _is_handover(document: Any) -> bool:
    if not isinstance(document, dict) or document.keys() != {"logs", "secrets", "tai64n", "options"}:
        return False
    logs, secrets = document["logs"], document["secrets"]
    return (
        all(map(_is_text, (logs, document["options"])))
        and logs.startswith("/")
        and "\0" not in logs
        and isinstance(document["tai64n"], bool)
        and isinstance(secrets, dict)
        and all(_is_text(each) for each in (*secrets, *secrets.values()))
    )


def _is_text(given: Any) -> bool:
    """Return whether a value is a text that UTF-8 can encode, unlike JSON's unpaired surrogates."""
    try:
        return isinstance(given, str) and given.encode() is not None
    except UnicodeEncodeError:
        return False
