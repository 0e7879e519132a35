"""What PyTorch's flight recorder has written of each rank, and which rank did not take part in what.

The format is that of PyTorch's documentation ("Flight Recorder for Debugging Stuck Jobs"), version 2: a
pickle of plain data. Whatever a task wrote may be an attack, so it is read without executing anything.
"""

import io
import os
import pickle
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "collectives_"
"""What the names of the files begin with; the rank follows."""

_MOST_BYTES = 1 << 26
_MOST_TEXT = 300
_LIBRARIES = ("/torch/", "/site-packages/", "/dist-packages/", "<frozen ")


class NoRecording(Exception):
    """The exception for a file that is not what a flight recorder writes."""


@dataclass(frozen=True)
class Operation:
    """A collective operation that a rank has entered: its name and sizes, and the line that called it.

    Of one that is over it may not be known whether it failed.
    """

    name: str
    sizes: str
    is_over: bool
    place: str


Recording = Mapping[str, Mapping[int, Operation]]
"""The operations of one rank, by process group and their number in it."""


def variables(folder: Path) -> dict[str, str]:
    """Return the variables by which PyTorch records operations, and writes them here if one hangs."""
    prefix = str(folder / PREFIX)
    return {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": prefix,
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": prefix,
    }


def read(path: Path) -> Recording:
    """Read what a rank has written. Raises OSError or `NoRecording`."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NoRecording("not a file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise NoRecording(f"it has more than {_MOST_BYTES} bytes")
    try:
        document = _PlainData(io.BytesIO(data)).load()
        entries = list(document["entries"])
    except Exception as error:  # noqa: BLE001 - whatever a pickle can make go wrong
        raise NoRecording(str(error)[:_MOST_TEXT] or type(error).__name__) from None
    found: dict[str, dict[int, Operation]] = {}
    for entry in entries:
        try:
            group, number, operation = _operation(entry)
        except (AttributeError, KeyError, LookupError, TypeError, ValueError):
            continue
        if operation is not None:
            found.setdefault(group, {})[number] = operation
    return found


def findings(recordings: Mapping[int, Recording]) -> Iterator[str]:
    """Yield which ranks did not enter an operation, or entered another than the others, group by group."""
    groups = dict.fromkeys(group for recording in recordings.values() for group in recording)
    for group in groups:
        ranks = {rank: recording[group] for rank, recording in recordings.items() if group in recording}
        yield from _different(group, ranks) or _behind(group, ranks) or _waiting(group, ranks)


class _PlainData(pickle._Unpickler):  # noqa: SLF001
    """An unpickler that knows no class: in Python, as that in C takes the memory of any index of its memo."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}; only plain data is read")


def _operation(entry: Any) -> tuple[str, int, Operation | None]:
    name, described = entry["process_group"]
    group = _text(described if described not in ("", "undefined") else name)
    if entry.get("is_p2p"):
        return group, 0, None
    called = _text(entry["profiling_name"])
    frames = entry.get("frames", ())
    own = [frame for frame in frames if not any(part in frame["filename"] for part in _LIBRARIES)]
    place = next((f"{_base(frame['filename'])}:{int(frame['line'])}" for frame in own or frames), "")
    # With gloo, a state never changes, and what has ended, in whatever way, is only "retired".
    is_over = entry["state"] == "completed" or bool(entry.get("retired"))
    operation = Operation(called.rpartition(":")[2], _text(entry["input_sizes"]), is_over, place)
    return group, int(entry["collective_seq_id"]), operation


def _different(group: str, ranks: Mapping[int, Mapping[int, Operation]]) -> list[str]:
    """Return the first operation that is another one in some ranks."""
    common = set.intersection(*(set(operations) for operations in ranks.values()))
    for number in sorted(common):
        kinds: dict[tuple[str, str], list[int]] = {}
        for rank, operations in ranks.items():
            kinds.setdefault((operations[number].name, operations[number].sizes), []).append(rank)
        if len(kinds) > 1:
            fullest = sorted(kinds.values(), key=len, reverse=True)
            parts = [f"{_named(kind)} entered {_shown(ranks[kind[0]][number])}" for kind in fullest]
            return [f"operation {number} of {group} is not the same for all: {', '.join(parts)}"]
    return []


def _behind(group: str, ranks: Mapping[int, Mapping[int, Operation]]) -> list[str]:
    """Return the ranks that did not enter what others are in."""
    last = {rank: max(operations) for rank, operations in ranks.items()}
    furthest = max(last.values())
    there = [rank for rank in ranks if last[rank] == furthest]
    found = []
    for rank in [rank for rank in ranks if last[rank] < furthest]:
        number = min(each for each in ranks[there[0]] if each > last[rank])
        missed, own = ranks[there[0]][number], ranks[rank][last[rank]]
        what = f"operation {number} of {group}, {_shown(missed)}, which {_named(there)} did"
        found.append(f"rank {rank} did not enter {what}; its last is {last[rank]}, {_shown(own)}")
    return found


def _waiting(group: str, ranks: Mapping[int, Mapping[int, Operation]]) -> list[str]:
    """Return the operation that all ranks have entered, if it is not over."""
    first = next(iter(ranks.values()))
    operation = first[max(first)]
    if all(operations[max(operations)].is_over for operations in ranks.values()):
        return []
    return [f"all ranks of {group} entered operation {max(first)}, {_shown(operation)}, and it did not end"]


def _shown(operation: Operation) -> str:
    place = f" ({operation.place})" if operation.place else ""
    return f"{operation.name} of {operation.sizes}{place}"


def _named(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _base(path: str) -> str:
    return _text(path).rpartition("/")[2]


def _text(value: object) -> str:
    return str(value)[:_MOST_TEXT]
