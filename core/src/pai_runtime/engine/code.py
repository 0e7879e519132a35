"""The code of a job: its entries, and an archive of them, as parts of a job or on a storage."""

from pai_runtime.engines.code import CodeEntry
from pai_runtime.engines.packed_code import STORAGE, Carrier, PackedCode, pack_code, release_code
from pai_task.code_archive import ARCHIVE, STORED_IN, stored_name

__all__ = [
    "ARCHIVE",
    "STORAGE",
    "STORED_IN",
    "Carrier",
    "CodeEntry",
    "PackedCode",
    "pack_code",
    "release_code",
    "stored_name",
]
