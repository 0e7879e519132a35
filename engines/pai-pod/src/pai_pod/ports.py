"""Ports that follow from the identity of a pod, so that no service has to hand them out."""

import hashlib

FIRST, END = 15000, 40000
"""The default range of hashed ports, whose end is exclusive."""


def hashed_port(pod: str, label: str, number: int, first: int, end: int) -> int:
    """Return the port with a number, from 0, of a label; `pod` is the UID of the task's pod."""
    text = f"[{pod}][{label}][{number}]".encode(errors="surrogateescape")
    digest = hashlib.md5(text, usedforsecurity=False).hexdigest()
    return (int(digest[:12], 16) + int(digest[12:24], 16) + int(digest[24:], 16)) % (end - first) + first
