"""What there is of a run on this machine: its directory, and a copy of what was read of one elsewhere."""

from pai_runtime.runs.kept import Kept, Seen, kept_at
from pai_runtime.runs.provenance import read_provenance
from pai_runtime.runs.run_folder import RunFolder
from pai_task.fast_json import loads_untrusted

__all__ = ["Kept", "RunFolder", "Seen", "kept_at", "loads_untrusted", "read_provenance"]
