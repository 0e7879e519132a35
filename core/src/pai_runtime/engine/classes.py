"""A replacement for `dataclasses` whose classes are created faster, for engines whose import time matters."""

from pai_task.record import field, record, replace

__all__ = ["field", "record", "replace"]
