"""Parts of shell scripts that run in any image."""

from __future__ import annotations


def port_is_taken(port: int | str) -> str:
    """A condition for a POSIX shell: a process on this machine listens on a TCP port.

    `port` is a number, or a word of the script such as ``"$port"``. It needs ``grep`` and no program that
    connects: the kernel's tables tell (``0A``: it listens).
    """
    return f"""grep -qs "$(printf ':%04X 0*:0000 0A ' {port})" /proc/net/tcp /proc/net/tcp6"""
