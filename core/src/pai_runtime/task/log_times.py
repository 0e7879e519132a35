"""The times of a log: a file beside it, of records of 16 bytes, which is rotated with it.

Each has an offset in the log and the Unix time in microseconds at which what begins there was written; both
are little-endian and take 8 bytes.
"""

RECORD_BYTES = 16

_LATEST = 253402300800
"""The first moment whose year has five digits."""


def record(offset: int, moment: float) -> bytes:
    """Return the record that what is written at `moment` (seconds since 1970) begins at `offset`."""
    return offset.to_bytes(8, "little") + int(moment * 1e6).to_bytes(8, "little")


def read_record(data: bytes) -> tuple[int, float | None]:
    """Return the offset and the time in a record; None for an invalid time."""
    moment = int.from_bytes(data[8:], "little") / 1e6
    return int.from_bytes(data[:8], "little"), moment if moment < _LATEST else None
