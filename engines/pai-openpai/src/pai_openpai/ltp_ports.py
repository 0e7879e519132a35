"""Ports as microsoft/ltp-platform hashes them, a fork of OpenPAI.

Its REST server hashes by SHA-256 and not by MD5, and adds the parts as JavaScript's numbers, of 53 bits. It
shows such ports to people, so all tasks have to use them, though many are the same.
"""

from __future__ import annotations

import hashlib
from math import fmod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_openpai.framework_field import Field

_VOLUME = "host-mount"
"""The volume of all pods there, and of none of OpenPAI's."""


def ltp_port(pod: str, label: str, number: int, first: int, end: int) -> int:
    """Return the port with a number, from 0, of a label; `pod` is the UID of the task's pod."""
    digest = hashlib.sha256(f"[{pod}][{label}][{number}]".encode(errors="surrogateescape")).hexdigest()
    parts = float(int(digest[:12], 16) + int(digest[12:24], 16)) + float(int(digest[24:], 16))
    return int(fmod(parts, end - first)) + first


def is_of_ltp(pod: Field) -> bool:
    """Return whether a pod in a Framework is one that LTP's REST server describes."""
    spec = pod.get("spec")
    volumes = spec.get("volumes") if spec else None
    return any(volume.at("name").data == _VOLUME for volume in (volumes.items() if volumes else ()))
