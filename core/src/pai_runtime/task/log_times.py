"""The times of a log: a file beside it, of records of 16 bytes that are rotated with it.

Each has an offset in the log and the Unix time in microseconds at which what begins there was written; both
are little-endian and take 8 bytes.
"""

RECORD_BYTES = 16

_LATEST = 253402300800
"""When there is no year of four digits any more."""


def record(offset: int, moment: float) -> bytes:
    """What is written at `moment`, in seconds since 1970, begins at `offset`."""
    return offset.to_bytes(8, "little") + int(moment * 1e6).to_bytes(8, "little")


def read_record(data: bytes) -> tuple[int, float | None]:
    """The offset and the time in a record; None for what is no time."""
    moment = int.from_bytes(data[8:], "little") / 1e6
    return int.from_bytes(data[:8], "little"), moment if moment < _LATEST else None
