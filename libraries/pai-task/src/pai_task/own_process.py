"""Settings of this process in the kernel (``prctl``)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_DUMPABLE = 4


def keep_to_ourselves() -> None:
    """Disable core dumps of this process, which has secrets, and access by other processes of its user."""
    prctl(PR_SET_DUMPABLE, 0)


def prctl(option: int, value: int) -> None:
    """Call ``prctl``; an error is ignored."""
    try:
        # What `ctypes` is made of, which takes a tenth of its time.
        from _ctypes import call_cdeclfunction, dlopen, dlsym  # noqa: PLC0415
    except ImportError:
        from ctypes import CDLL  # noqa: PLC0415

        CDLL(None).prctl(option, value, 0, 0, 0)
    else:
        libc: Any = None  # what this process has loaded
        call_cdeclfunction(dlsym(dlopen(libc, 0), "prctl"), (option, value, 0, 0, 0))
