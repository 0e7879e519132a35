"""The local copy of what was read of a followed run, for engines whose clusters forget runs or their logs."""

from pai_runtime.runs.kept import Kept, Seen, kept_at

__all__ = ["Kept", "Seen", "kept_at"]
