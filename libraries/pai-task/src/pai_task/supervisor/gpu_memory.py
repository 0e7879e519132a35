"""The GPU memory of processes, as drivers of the kernel's DRM subsystem tell it in ``/proc/PID/fdinfo``.

Those are amdgpu, i915, xe, nouveau and others; NVIDIA's own driver tells nothing there.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_DEVICES = "/dev/dri/"
_UNITS = {b"": 1 / 1024, b"KiB": 1, b"MiB": 1024}
_KEYS = b"drm-resident-", b"drm-memory-"
_REGIONS = b"vram", b"local"
"""Beginnings of the names of memory regions on the device; all others are the machine's own memory."""
_MOST_READ = 1 << 14


def has_devices() -> bool:
    """Return whether there is a GPU whose driver may tell."""
    return os.path.isdir(_DEVICES)


def gpu_memory(pids: Iterable[int], proc: str = "/proc") -> int:
    """Return the KiB that processes have on all GPUs; what they share counts once."""
    clients: dict[tuple[bytes, bytes], int] = {}
    for pid in pids:
        for fd in _device_files(f"{proc}/{pid}/fd"):
            fields = _fields(f"{proc}/{pid}/fdinfo/{fd}")
            client = fields.get(b"drm-pdev", b""), fields.get(b"drm-client-id", b"")
            clients[client] = max(_on_device(fields), clients.get(client, 0))
    return sum(clients.values())


def _device_files(folder: str) -> list[str]:
    try:
        return [fd for fd in os.listdir(folder) if _link(f"{folder}/{fd}").startswith(_DEVICES)]
    except OSError:  # the process has ended, or may not be traced
        return []


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # closed meanwhile
        return ""


def _fields(path: str) -> dict[bytes, bytes]:
    try:
        with open(path, "rb", buffering=0) as file:
            lines = file.read(_MOST_READ).splitlines()
    except OSError:
        return {}
    parts = (line.partition(b":") for line in lines)
    return {name: value.strip() for name, _, value in parts}


def _on_device(fields: dict[bytes, bytes]) -> int:
    """Return the KiB on the device: what is resident, or else what older drivers tell."""
    for key in _KEYS:
        names = [name for name in fields if name.startswith(key)]
        if names:
            return sum(_size(fields[name]) for name in names if name[len(key) :].startswith(_REGIONS))
    return 0


def _size(value: bytes) -> int:
    number, _, unit = value.partition(b" ")
    return int(int(number) * _UNITS[unit]) if number.isdigit() and unit in _UNITS else 0
