"""Fragments of shell scripts that run in any image."""

from __future__ import annotations

from pai_task import paths

BUNDLE = paths.BUNDLE
"""The directory with the runtime's programs for any image; it exists in pods only.

``applets`` has the usual programs (busybox), for what an image lacks; ``bin/bash`` is a shell; what a
plugin's manifest asks for is in ``ssh/bin`` and ``git/bin``, if the machine that made the bundle had it.
"""


def port_is_taken(port: int | str) -> str:
    """Return a condition for a POSIX shell that is true if a process on this machine listens on a TCP port.

    `port` is a number, or a word of the script such as ``"$port"``. It needs ``grep``, if only that of the
    bundle, and no program that connects: the kernel's tables tell (``0A``: it listens).
    """
    pattern = f"""$(printf ':%04X 0*:0000 0A ' {port})"""
    return f"""PATH=$PATH:{paths.TOOLS} grep -qs "{pattern}" /proc/net/tcp /proc/net/tcp6"""
