"""When a task hangs, and which of its processes and which task are to blame, by what is seen of them."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_hang.examining import Examiner, Pace
from pai_hang.judging import Sample, Silence, below, stand_still, stuck, waits_for_others
from pai_hang.places import Look, at, lines, odd_ones, places, where
from pai_hang.processes import TIMED_WAIT, Process, is_service
from pai_hang.stacks import Frame, Stacks, Thread
from pai_hang.watch import report, say, silent_for
from pai_hang.within import parsed
from pai_plugin_kit import conformance
from pai_task.supervisor.nvidia_smi import nvidia_smi
from tests.support import until

test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance("hang"))

TRAIN = Frame("<module>", "/job/worker/0/work/train.py", 88)
ALL_REDUCE = Frame("all_reduce", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 1)
READ = Frame("read_shard", "/job/loader.py", 41)
STEP = Frame("step", "/job/worker/0/work/train.py", 12)
LIBRARY = Frame("synchronize", "/usr/lib/python3/dist-packages/torch/cuda/__init__.py", 1162)


def process(pid: int = 7, **fields: Any) -> Process:
    return replace(Process(pid, 1, "python3", "S", 1.0, 100, "futex", "", "futex_wait"), **fields)


def look(
    task: str = "worker/0",
    *frames: Frame,
    has_gil: bool = False,
    native: tuple[str, ...] = (),
    **fields: Any,
) -> Look:
    of = process(**fields)
    threads = (Thread(of.pid, frames, has_gil, native),) if frames else ()
    return Look(task, of, Stacks(threads, "" if threads else "no Python"))


def silence(*samples: tuple[float, Process, object], after: float = 10) -> Silence:
    judged = Silence(after)
    for time, seen, output in samples:
        judged.feed(Sample(time, [seen], output))
    return judged


@pytest.mark.parametrize(
    ("later", "output", "moved"),
    [
        (process(), 1, False),
        (process(io=1100), 1, False),  # the heartbeat of a store
        (process(io=100_000), 1, True),
        (process(), 2, True),
        (process(pid=8), 1, True),
        (process(cpu=11.0), 1, False),  # who keeps a processor busy may compute, or may spin
    ],
)
def test_a_task_moves_by_output_input_and_processes(later: Process, output: int, *, moved: bool) -> None:
    judged = silence((0, process(), 1), (10, later, output))
    assert judged.is_long is not moved


def test_who_was_silent_for_long_and_went_on_may_be_silent_for_twice_as_long() -> None:
    judged = silence((0, process(), 1), (30, process(), 1), (31, process(), 2), (80, process(), 2))
    assert (judged.longest, judged.is_long) == (30, False)
    judged.feed(Sample(91, [process()], 2))
    assert judged.is_long


def test_a_silence_before_the_first_sample_counts_until_something_moves(tmp_path: Path) -> None:
    judged = silence((0, process(), 1), (4, process(), 1))
    judged.before = 6
    assert judged.is_long
    judged.feed(Sample(5, [process()], 2))
    assert (judged.longest, judged.before, judged.is_long) == (10, 0, False)
    log = tmp_path / "log"
    assert silent_for(str(log)) == float("inf")
    log.touch()
    assert silent_for(str(log)) < 60
    os.utime(log, (1, 1))
    assert silent_for(str(log)) > 1e9


def test_a_busy_processor_is_not_idle() -> None:
    assert silence((0, process(), 1), (10, process(cpu=1.1), 1)).is_idle
    assert not silence((0, process(), 1), (10, process(cpu=9.0), 1)).is_idle


@pytest.mark.parametrize(
    ("seen", "listens", "expected"),
    [
        (look(call="read", file="/data/shard"), False, True),
        (look(call="read", file="/data/shard"), True, True),
        (look(call="read", file="pipe:[1]"), False, False),
        (look(call="read", file="/dev/pts/0"), False, False),
        (look(call="read", file="socket:[1]"), False, True),
        (look(call="recvfrom"), False, True),
        (look(call="openat"), False, True),
        (look(call="futex"), False, True),
        (look(call="futex"), True, False),  # a server with threads
        (look("worker/0", TRAIN, ALL_REDUCE, call="futex"), True, True),
        (look("worker/0", TRAIN, call="clock_nanosleep"), False, False),
        (look("worker/0", TRAIN, call="clock_nanosleep", has_gil=True), False, True),
        (look(call=TIMED_WAIT), False, False),
        (look("worker/0", TRAIN, call=TIMED_WAIT, has_gil=True), False, True),
        (look(call="epoll_wait"), False, False),
        (look(call="accept4"), True, False),
        (look(call="wait4"), False, False),
        (look(call="wait4", state="T"), False, True),
        (look(call="epoll_wait", state="T"), False, True),
        (look(call="", state="D"), False, True),
        (look(call="", state="R"), False, False),
    ],
)
def test_what_a_process_waits_for_decides(seen: Look, *, listens: bool, expected: bool) -> None:
    assert bool(stuck([seen], lambda _: listens)) is expected


@pytest.mark.parametrize(("call", "expected"), [("wait4", 1), ("clock_nanosleep", 0), ("epoll_wait", 0)])
def test_a_worker_without_work_does_not_hang_as_its_parent_rests(call: str, expected: int) -> None:
    worker = look(pid=8, parent=7, call="futex")
    assert len(stuck([look(pid=7, call=call), worker], lambda _: False)) == expected


def test_who_waits_for_a_child_that_sleeps_or_for_its_own_threads_at_the_end_does_not_hang() -> None:
    waits, child = look("worker/0", TRAIN), look(pid=8, parent=7, call="clock_nanosleep")
    assert stuck([waits], lambda _: False) == [waits]
    assert stuck([waits, child], lambda _: False) == []
    assert stuck([look("worker/0", TRAIN, replace(READ, function="_shutdown"))], lambda _: False) == []


def test_workers_of_a_fork_server_are_those_of_who_has_started_it() -> None:
    main, serve = (
        Frame(each, "/usr/lib/python3.13/multiprocessing/forkserver.py", 1) for each in ("main", "_serve_one")
    )
    waits = look("worker/0", TRAIN, pid=7)
    server = look("worker/0", TRAIN, main, pid=8, parent=7, call="epoll_wait")
    idle = look("worker/0", TRAIN, main, serve, pid=9, parent=8)
    sleeps = look("worker/0", TRAIN, main, serve, pid=10, parent=8, call="clock_nanosleep")
    assert stuck([waits, server, idle, sleeps], lambda _: False) == []
    assert stuck([waits, server, idle], lambda _: False) == [waits, idle]


def test_who_waits_for_other_tasks_is_named_last() -> None:
    waits = look("worker/0", TRAIN, ALL_REDUCE)
    reads = look("worker/0", READ, pid=8, call="read", file="/data/shard")
    assert stuck([waits, reads], lambda _: False) == [reads, waits]


def test_a_busy_process_hangs_only_in_a_collective_operation_at_the_same_line_each_time() -> None:
    spins = look("worker/0", TRAIN, ALL_REDUCE, state="R")
    computes = look("worker/0", TRAIN, pid=8, state="R")
    moved = look("worker/0", replace(TRAIN, line=90), ALL_REDUCE, state="R")
    no_python = look(pid=9, state="R")
    assert stand_still([[spins, computes, no_python]] * 3) == [spins, computes]
    assert [each for each in (spins, computes) if waits_for_others(each)] == [spins]
    assert stand_still([[spins, computes], [moved, computes]]) == [computes]
    assert stand_still([[spins], []]) == []


def test_what_a_library_does_within_its_wait_for_a_gpu_is_no_movement() -> None:
    first, second = (
        look("worker/0", TRAIN, STEP, native=("step", "cudaStreamSynchronize", inner))
        for inner in ("poll", "clock")
    )
    elsewhere = look("worker/0", TRAIN, STEP, native=("other", "cudaStreamSynchronize", "poll"))
    assert stand_still([[first], [second]]) == [first]
    assert stand_still([[first], [elsewhere]]) == []


def test_a_loop_around_a_gpu_in_no_function_is_not_taken_for_one_wait() -> None:
    """Seen on an H100: `float(y.sum())` of each step, of which only the variables of the module change."""
    waits = look("worker/0", TRAIN, native=("item", "cudaStreamSynchronize", "poll"))
    in_torch = look("worker/0", TRAIN, LIBRARY, native=("cudaDeviceSynchronize",))
    in_function = look("worker/0", TRAIN, STEP, LIBRARY, native=("cudaDeviceSynchronize",))
    assert [stand_still([[each]] * 3) for each in (waits, in_torch, in_function)] == [[], [], [in_function]]


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        (("PyEval_EvalCode", "cudaStreamSynchronize", "cuStreamSynchronize", "???"), "cudaStreamSynchronize"),
        (("cuEventSynchronize",), "cuEventSynchronize"),
        (("hipDeviceSynchronize",), "hipDeviceSynchronize"),
        (("cuMemcpyDtoH_v2",), "cuMemcpyDtoH_v2"),
        (("PMPI_Recv", "opal_progress"), "PMPI_Recv"),
        (("ncclCommAbort",), "ncclCommAbort"),
        (("cublasSgemm", "cudaLaunchKernel", "synchronize", "dgemm_"), ""),
    ],
)
def test_who_waits_for_a_gpu_or_a_peer_is_known_by_the_function_of_c(
    native: tuple[str, ...], expected: str
) -> None:
    spins = look("worker/0", TRAIN, state="R", call="", native=native)
    assert spins.device_wait == expected
    assert waits_for_others(spins) is bool(expected)
    assert not expected or where(spins) == f"in {expected} in <module> (train.py:88)"


@pytest.mark.parametrize("rank", [0, 3])
def test_of_the_processes_of_a_launcher_the_one_is_named_that_is_elsewhere(rank: int) -> None:
    launcher = look(pid=2, name="torchrun", call="epoll_wait")
    ranks = [look("worker/0", TRAIN, ALL_REDUCE, pid=10 + each, parent=2) for each in range(4)]
    ranks[rank] = look("worker/0", READ, pid=10 + rank, parent=2, state="R", call="")
    found = [each for each in ranks if waits_for_others(each)]
    (first, *_) = report(found, [launcher, *ranks], 30)
    assert first.endswith(
        f"in all_reduce (train.py:88), but process {10 + rank} is in read_shard (loader.py:41)"
    )
    assert report(ranks[:1], ranks[:2], 30)[0].count("process") == 0


def test_where_a_command_is_is_told_by_the_places_of_most_of_its_processes() -> None:
    shell = look(pid=2, name="bash", call="wait4")
    workers = [look(pid=5 + each, parent=3, name="python3", call="futex") for each in range(3)]
    assert at([shell, look("worker/0", READ, pid=3, call=""), *workers]) == (
        "3 processes in futex (python3); in read_shard (loader.py:41)"
    )


def sixteen(odd: Look) -> list[Look]:
    others = [
        look(f"worker/{index}", replace(TRAIN, file=f"/job/worker/{index}/work/train.py"), ALL_REDUCE)
        for index in range(16)
        if index != 7
    ]
    return [*others, odd]


@pytest.mark.parametrize(
    "odd",
    [
        look("worker/7", READ, call="read", file="/data/shard-0091"),
        look("worker/7", replace(TRAIN, line=90), replace(ALL_REDUCE, function="barrier")),
        look("worker/7", TRAIN, ALL_REDUCE, state="T"),
    ],
)
def test_the_one_that_is_not_where_the_others_are_is_named(odd: Look) -> None:
    found = places(sixteen(odd))
    assert [len(place.tasks) for place in found] == [15, 1]
    assert list(odd_ones(found)) == ["worker/7"]
    told = list(lines(sixteen(odd)))
    assert "all_reduce (train.py:88)" in told[0]
    assert told[1].startswith("worker/7 is ")
    assert told[2].startswith("worker/7 is not where")


def test_the_one_is_named_that_does_not_answer_the_others() -> None:
    first = replace(look("worker/0", TRAIN, ALL_REDUCE), silent_peers=("10.0.0.2:4", "10.0.0.3:5"))
    second = replace(look("worker/1", TRAIN, ALL_REDUCE), addresses=frozenset({"10.0.0.2:4"}))
    assert list(lines([first, second]))[1:] == [
        "worker/1 does not answer worker/0",
        "10.0.0.3:5 does not answer worker/0",
    ]


def test_of_two_tasks_nobody_knows_which_is_wrong_unless_one_is_stopped() -> None:
    first, second = look("worker/0", TRAIN, ALL_REDUCE), look("worker/1", READ)
    assert odd_ones(places([first, second])) == {}
    stopped = look("worker/1", TRAIN, ALL_REDUCE, state="T")
    assert list(odd_ones(places([first, stopped]))) == ["worker/1"]


def test_none_is_odd_where_all_are_at_one_place_or_each_is_elsewhere() -> None:
    assert odd_ones(places([look(f"worker/{index}", TRAIN) for index in range(4)])) == {}
    assert odd_ones(places([look(f"worker/{n}", replace(TRAIN, line=n)) for n in range(4)])) == {}
    assert odd_ones([]) == {}


def test_shells_that_wait_for_their_children_are_left_out() -> None:
    shell = look("worker/0", pid=2, name="bash", call="wait4")
    assert [place.looks for place in places([shell, look("worker/0", TRAIN)])] == [(look("worker/0", TRAIN),)]
    assert len(places([shell])) == 1


def test_a_place_is_the_line_of_the_users_code_and_what_it_calls() -> None:
    read = where(look("worker/7", TRAIN, READ, call="read", file="/data/shard"))
    assert read == "in read of /data/shard in read_shard (loader.py:41)"
    assert where(look("worker/7", TRAIN, ALL_REDUCE)) == "in all_reduce (train.py:88)"
    assert where(look("worker/7", call="", wait="", state="R")) == "in its own code (python3)"
    assert where(look("worker/7", call="", wait="")) == "in a wait (python3)"  # as of who is not ours to read


def test_only_a_command_and_what_it_started_is_judged() -> None:
    seen = [process(2), process(3), process(4, parent=2), process(5, parent=4), process(6, parent=3)]
    assert [each.pid for each in below(seen, 2)] == [2, 4, 5]


@given(st.text(max_size=40), st.text(max_size=40))
def test_names_from_a_task_cannot_control_a_terminal_or_forge_a_line(name: str, file: str) -> None:
    seen = look("worker/0", Frame(name, file, 1), name=name, call="read", file=f"/{file}")
    written: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout.write", written.append)
        say(report([seen], [seen], 10))
    assert all(text.endswith("\n") and text[:-1].isprintable() for text in written)


PROCESS = [7, 1, "python3", "S", 1.0, None, "read", "/data/shard", ""]
THREAD = [7, [["step", "/job/train.py", 12]], False, [], ""]


def test_what_a_task_tells_of_its_processes_is_what_is_seen_of_them_here() -> None:
    (found,) = parsed("worker/7", [[PROCESS, "", [THREAD], ["10.0.0.1:5"], []]])
    assert where(found) == "in read of /data/shard in step (train.py:12)"
    assert (found.task, set(found.addresses)) == ("worker/7", {"10.0.0.1:5"})


@pytest.mark.parametrize(
    "told",
    [
        None,
        {"pid": 7},
        [[]],
        [[PROCESS, "", [THREAD], []]],
        [[PROCESS[:-1], "", [], [], []]],
        [[["x", *PROCESS[1:]], "", [], [], []]],
        [[[*PROCESS[:4], 10**400, *PROCESS[5:]], "", [], [], []]],
        [[PROCESS, "", [[7, [["step"]], False, [], ""]], [], []]],
        [[PROCESS, "", [[7, [["step", "train.py", None]], False, [], ""]], [], []]],
    ],
)
def test_what_a_task_forges_is_refused_in_words(told: Any) -> None:
    with pytest.raises(ValueError, match="invalid"):
        parsed("worker/7", told)


def test_what_a_task_tells_is_bounded() -> None:
    forged = [7, 1, "n" * 9999, "", 1.0, 5, ["x"] * 9999, {}, "w"]
    (found,) = parsed("worker/7", [[forged, "y" * 9999, [], [], []]])
    assert max(map(len, (found.process.name, found.process.call, found.stacks.why_not))) < 1000
    assert not found.process.is_stopped


def test_the_pause_after_a_look_is_as_long_as_the_share_of_a_processor_demands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("pai_hang.examining.time.sleep", slept.append)
    pace = Pace(15)
    until = process_time() + 0.1
    while process_time() < until:
        pass
    pace.wait(1)
    assert slept[0] >= 0.08 / 0.005
    pace.wait(100)
    assert slept[1] == 100


class NoPause(Pace):
    def wait(self, least: float) -> None:
        pass


@pytest.mark.parametrize(
    ("native", "moves", "uses_gpu", "hangs"),
    [
        (("acquire", "sem_wait"), False, True, True),
        (("cudaEventSynchronize", "pthread_cond_wait"), False, True, True),
        (("cudaEventSynchronize", "pthread_cond_wait"), True, True, False),
        (("acquire", "sem_wait"), True, False, True),
    ],
    ids=["a lock", "an event that never comes", "a loop around a GPU", "a lock, without a GPU"],
)
def test_who_waits_in_a_futex_and_uses_a_gpu_is_looked_at_closely(
    *, native: tuple[str, ...], moves: bool, uses_gpu: bool, hangs: bool
) -> None:
    """Seen on an H100 with `cudaDeviceScheduleBlockingSync`: a loop of kernels waits as a deadlock does."""
    looked: list[bool] = []

    def looks(_: Any = None, *, closely: bool = False) -> list[Look]:
        looked.append(closely)
        now = look("worker/0", TRAIN, STEP, native=native if closely else ())
        (thread,) = now.stacks.threads
        values = str(len(looked)) if closely and moves else ""
        return [replace(now, stacks=Stacks((replace(thread, values=values),)))]

    examiner = Examiner(looks, NoPause(15), 1200, 15, may_wait=lambda _: False, uses_gpu=lambda _: uses_gpu)
    found, _ = examiner.found(is_idle=True)
    assert bool(found) == hangs
    assert any(looked) == uses_gpu


@pytest.mark.parametrize(
    ("fields", "later", "hangs"),
    [
        ({"state": "T"}, {}, True),
        ({"state": "D", "call": "read", "file": "/data/shard"}, {}, True),
        ({"state": "D"}, {"cpu": 1.01}, False),  # such as reads of a mapped file
        ({"state": "D"}, {"state": "S"}, False),
        ({"state": "S"}, {}, False),
    ],
)
def test_beside_a_busy_process_one_hangs_that_cannot_run(
    *, fields: dict[str, Any], later: dict[str, Any], hangs: bool
) -> None:
    """As of a program in C, whose other ranks keep processors busy while they wait for it in MPI."""
    spins = look(pid=8, name="solver", state="R", call="")
    looked: list[Look] = []

    def looks(at_those: list[Look] | None = None, **_: object) -> list[Look]:
        now = look(pid=9, name="solver", **{**fields, **(later if looked else {})})
        looked.append(now)
        return [now] if at_those else [spins, now]

    examiner = Examiner(looks, NoPause(15), 1200, 15, may_wait=lambda _: False, uses_gpu=lambda _: False)
    found, everything = examiner.found(is_idle=False)
    assert [each.process.pid for each in found] == [9] * hangs
    assert len(everything) == 2


@pytest.mark.process
def test_what_samples_the_gpus_of_a_task_is_none_of_its_processes(tmp_path: Path) -> None:
    sampler = tmp_path / "nvidia-smi"
    sampler.write_text("#!/bin/sh\nexec /bin/sleep 1000\n")
    sampler.chmod(0o755)
    program = nvidia_smi(None, f"{tmp_path}", driver="/dev/null")
    assert program
    with subprocess.Popen(program.argv, env=program.environment) as process:
        try:
            assert until(lambda: is_service(process.pid))  # while it executes `sleep`, it has no environment
        finally:
            process.kill()
