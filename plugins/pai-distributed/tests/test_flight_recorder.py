"""PyTorch's flight recorder: which rank did not take part in what, read without executing anything.

Most documents are those of PyTorch's documentation (version 2.x of the format): no backend that writes them
runs without GPUs. Those in ``recordings`` were written by PyTorch 2.11 on a machine with an H100.
"""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from pai_distributed.flight_recorder import NoRecording, findings, read
from tests.support import cli


def entry(
    number: int, name: str = "all_reduce", *, line: int = 88, state: str = "completed"
) -> dict[str, Any]:
    frames = [
        {"name": "all_reduce", "filename": "/usr/lib/torch/distributed/distributed_c10d.py", "line": 2501},
        {"name": "main", "filename": "/job/train.py", "line": line},
    ]
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{name}",
        "input_sizes": [[4]],
        "output_sizes": [[4]],
        "state": state,
        "is_p2p": False,
        "frames": frames,
    }


def dumped(folder: Path, *ranks: list[dict[str, Any]]) -> list[Path]:
    paths = []
    for rank, entries in enumerate(ranks):
        path = folder / "worker" / str(rank) / "distributed" / f"collectives_{rank}"
        path.parent.mkdir(parents=True)
        path.write_bytes(pickle.dumps({"version": "2.4", "entries": entries}, 2))
        paths.append(path)
    return paths


def said(paths: list[Path]) -> list[str]:
    return list(findings({rank: read(path) for rank, path in enumerate(paths)}))


RECORDINGS = Path(__file__).parent / "recordings"


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        ("nccl_one_rank/collectives_0", []),
        ("gloo_mismatch/collectives_0", []),
        (
            "gloo_mismatch/collectives_*",
            [
                (
                    "operation 2 of default_pg is not the same for all: rank 0 entered "
                    "all_reduce of [[4]] (gloo_fr.py:7), rank 1 entered broadcast of [[8]] (gloo_fr.py:8)"
                )
            ],
        ),
    ],
)
def test_what_pytorch_itself_has_written_is_read(recorded: str, found: list[str]) -> None:
    """Of gloo, one rank's operations are over although their states say that they did not begin."""
    assert said(sorted(RECORDINGS.glob(recorded))) == found


def test_a_rank_that_did_not_enter_an_operation_is_named_with_what_it_missed(tmp_path: Path) -> None:
    there = [entry(1), entry(2, line=90, state="started")]
    (line,) = said(dumped(tmp_path, there, [entry(1)], there))
    assert line.startswith(
        "rank 1 did not enter operation 2 of default_pg, all_reduce of [[4]] (train.py:90)"
    )
    assert "ranks 0, 2 did" in line
    assert "its last is 1, all_reduce of [[4]] (train.py:88)" in line


def test_a_rank_that_entered_another_operation_is_named(tmp_path: Path) -> None:
    other = [entry(1), entry(2, "broadcast", line=91, state="started")]
    usual = [entry(1), entry(2, line=90, state="started")]
    (line,) = said(dumped(tmp_path, usual, other, usual))
    assert "operation 2 of default_pg is not the same for all" in line
    assert "ranks 0, 2 entered all_reduce of [[4]] (train.py:90), rank 1 entered broadcast" in line


def test_ranks_that_all_wait_for_the_network_are_not_told_apart(tmp_path: Path) -> None:
    (line,) = said(dumped(tmp_path, *[[entry(1, state="started")]] * 3))
    assert line.startswith("all ranks of default_pg entered operation 1")


def test_operations_that_are_complete_and_messages_between_two_ranks_say_nothing(tmp_path: Path) -> None:
    pair = [entry(1), {**entry(2), "is_p2p": True}]
    assert said(dumped(tmp_path, pair, [entry(1)])) == []


class Attack:
    def __reduce__(self) -> Any:
        return os.system, ("touch attacked",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"entries": [Attack()]}),
        pickle.dumps({"entries": Attack()}),
        pickle.dumps([]),
        pickle.dumps({"entries": 5}),
        b"",
        b"\x80\x02\x8e" + b"\xff" * 7 + b"\x7f",
        b"(" * 100_000,
    ],
)
def test_what_is_no_plain_data_is_not_read_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "collectives_0"
    path.write_bytes(data)
    with pytest.raises(NoRecording):
        read(path)
    assert not (tmp_path / "attacked").exists()


def test_a_fifo_or_link_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "collectives_0")
    (tmp_path / "collectives_1").symlink_to("/etc/passwd")
    with pytest.raises(NoRecording):
        read(tmp_path / "collectives_0")
    with pytest.raises(OSError, match="symbolic links"):
        read(tmp_path / "collectives_1")


@pytest.mark.parametrize("wrong", [None, 5, {}, {**entry(1), "frames": 5}, {**entry(1), "process_group": 1}])
def test_an_entry_that_is_wrong_is_left_out(tmp_path: Path, wrong: Any) -> None:
    (path,) = dumped(tmp_path, [wrong, entry(1)])
    assert list(read(path)["default_pg"]) == [1]


@pytest.mark.process
def test_the_command_reads_the_directory_of_a_run(tmp_path: Path) -> None:
    dumped(tmp_path, [entry(1), entry(2, state="started")], [entry(1)])
    shown = cli("collectives", tmp_path)
    assert shown.returncode == 0
    assert shown.stdout.startswith("rank 1 did not enter operation 2 of default_pg")
    nothing = cli("collectives", tmp_path / "worker")
    assert (nothing.returncode, nothing.stdout) == (1, "")
