"""Classes of values as `dataclasses` makes them, but sooner: for engines whose imports people wait for."""

from pai_runtime.task.record import field, record, replace

__all__ = ["field", "record", "replace"]
