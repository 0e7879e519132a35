"""``pai-runtime init --print-logs``: the sidecar that prints the runtime's log of a task."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_pod.kept_output import OUTPUT_VARIABLE
from pai_pod.runtime_log import (
    DECIDING_VARIABLE,
    KEPT,
    MOST_LOOKS_AFTER_END,
    PORT_VARIABLE,
    print_runtime_log,
)
from pai_pod.told_variables import (
    MOST_BYTES,
    PREFIX,
    STATE_PREFIX,
    ToldFilter,
    is_told,
    read_told,
    state_line,
    told_line,
    with_peers,
    without_told,
)
from pai_task.folder import Folder
from pai_task.launch import Rotation
from pai_task.log_file import LogFile
from pai_task.plan import PEERS, SharedVariables
from tests.init_harness import address, volume
from tests.support import PROGRAM, content, until

__all__ = ["volume"]

OWN = {"A": {"source": "platform", "value": "1"}, "PATH": {"source": "image"}}


class Sidecar:
    """The process; its output is read as it comes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        assert process.stdout
        self._out: BinaryIO = process.stdout  # type: ignore[assignment]

    def read(self, size: int) -> bytes:
        """So many bytes, waited for."""
        return self._out.read(size)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Tell it to end."""
        self._process.send_signal(number)

    def end(self, number: int | None = signal.SIGTERM) -> bytes:
        """What it prints after a signal, if one is given; it has ended well."""
        if number is not None:
            self.stop(number)
        rest, _ = self._process.communicate()
        assert self._process.returncode == 0
        return rest


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait for a signal; one comes at once each time."""
    waited: list[float] = []

    def told_to_stop(_numbers: object, pause: float) -> int:
        waited.append(pause)
        return signal.SIGTERM

    monkeypatch.setattr(signal, "sigtimedwait", told_to_stop)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    return waited


@contextmanager
def sidecar(volume: Path, **more: str) -> Iterator[Sidecar]:
    environment = {**os.environ, "PAI_WORK_DIR": str(volume), **more}
    command = [str(PROGRAM), "init", "--print-logs"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        try:
            yield Sidecar(process)
        finally:
            process.kill()


def log(volume: Path, data: bytes) -> None:
    with (volume / "logs" / "pod" / "runtime.log").open("ab") as file:
        file.write(data)


def variables(volume: Path, content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    aside = volume / "runtime.d" / "aside"
    aside.write_text(text)
    aside.rename(volume / "runtime.d" / "variables.json")


def told(document: Mapping[str, Any]) -> bytes:
    return told_line(document)


@pytest.mark.process
def test_the_log_is_printed_as_it_grows_byte_for_byte(volume: Path) -> None:
    with sidecar(volume) as printer:
        for data in (b"one\n", b"\xff\0 half", b" of a line\n\n"):
            log(volume, data)
            assert printer.read(len(data)) == data
        log(volume, b"rest")
        assert printer.end() == b"rest\n"


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_a_log_it_waits_for_its_end(volume: Path, number: int) -> None:
    log(volume, b"begun\n")
    with sidecar(volume) as printer:
        printer.read(6)  # it listens
        assert printer.end(number) == b""


@pytest.mark.process
def test_the_output_is_on_a_storage_while_the_task_runs_and_complete_at_its_end(
    volume: Path, tmp_path: Path
) -> None:
    storage, user_log = tmp_path / "storage", volume / "logs/pod/user-all/current"
    copied = storage / "demo/uid/worker/0/3"
    storage.mkdir()
    user_log.parent.mkdir()
    user_log.write_bytes(b"one\n")
    more = {"PAI_OUTPUT_DIR": str(storage), OUTPUT_VARIABLE: "demo/uid/worker/0", "PAI_TASK_ATTEMPT": "3"}
    with sidecar(volume, **more) as printer:
        until(lambda: content(copied / "user.log") == b"one\n")
        user_log.write_bytes(b"one\ntwo\n")
        log(volume, b"runtime\n")
        variables(volume, OWN)
        (volume / "runtime.d/exit.yaml").write_text("exitCode: 3\n")
        assert printer.end().startswith(b"runtime\n")
    assert (copied / "user.log").read_bytes() == b"one\ntwo\n"
    assert (copied / "runtime.log").read_bytes() == b"runtime\n"
    assert (copied / "exit.yaml").read_text() == "exitCode: 3\n"
    assert json.loads((copied / "variables.json").read_text()) == OWN


@pytest.mark.process
def test_a_storage_that_cannot_be_written_is_said_and_the_log_is_printed(
    volume: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log(volume, b"line\n")
    more = {"PAI_OUTPUT_DIR": str(volume / "missing"), OUTPUT_VARIABLE: "demo/uid/worker/0"}
    with sidecar(volume, **more) as printer:
        assert printer.read(5) == b"line\n"
        printer.end()
    assert capfd.readouterr().err.count(str(volume / "missing")) == 1


@pytest.mark.process
def test_it_goes_on_over_rotations(volume: Path) -> None:
    with Folder.at(volume / "logs" / "pod") as folder, sidecar(volume) as printer:
        file = LogFile(folder, "runtime.log", Rotation(10, 2))
        for number in range(10):
            line = f"line {number}\n".encode()
            file.write(line)
            assert printer.read(len(line)) == line
        assert printer.end() == b""


@pytest.mark.process
def test_the_variables_are_told_when_they_change_and_at_the_end(volume: Path) -> None:
    peer = {"PEER": {"source": PEERS, "value": "x"}}
    with sidecar(volume) as printer:
        variables(volume, {**OWN, **peer})
        line = told(OWN)
        assert printer.read(len(line)) == line
        log(volume, b"begun")
        assert printer.read(5) == b"begun"
        changed = {**OWN, "A": {"source": "cmd", "value": "2"}}
        variables(volume, changed)  # not in the middle of a line
        log(volume, b" and ended\n")
        after = b" and ended\n" + told(changed)
        assert printer.read(len(after)) == after
        assert printer.end() == told(changed)


@pytest.mark.process
def test_that_a_task_is_held_is_told_once_and_that_it_is_no_more(volume: Path) -> None:
    state = {"phase": "held", "since": 1.0, "heldUntil": 2.0, "release": "/x", "pid": 7, "addresses": {}}
    path = volume / "runtime.d" / "state.json"

    def write(document: Any) -> bytes:
        path.with_name("new").write_text(json.dumps(document))
        path.with_name("new").replace(path)
        return state_line(document)

    with sidecar(volume) as printer:
        write({**state, "phase": "command"})
        log(volume, b"begun\n")
        assert printer.read(6) == b"begun\n"
        held = write(state)
        assert printer.read(len(held)) == held
        ending = write({**state, "phase": "ending", "since": 3.0, "heldUntil": None})
        assert printer.read(len(ending)) == ending
        assert printer.end() == b""
    assert read_told(held, STATE_PREFIX) == {
        key: state[key] for key in ("phase", "since", "heldUntil", "release")
    }
    assert is_told(held)
    assert read_told(held) == {}


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        ({"gang": True, "instances": {"worker": 1, "ps": 1}}, KEPT),
        ({"gang": True, "instances": {"worker": 1}}, 0),
        ({"gang": False, "instances": {"worker": 2}}, 0),
        ({"gang": True, "instances": ["worker"]}, 0),
        ([], 0),
        (None, 0),
    ],
)
def test_the_pod_of_a_gangs_task_is_there_for_those_who_look_for_it(
    volume: Path, pauses: list[float], plan: Any, seconds: float
) -> None:
    if plan is not None:
        (volume / "runtime.d" / "plan.json").write_text(json.dumps(plan))
    assert print_runtime_log({"PAI_WORK_DIR": str(volume)}) == 0
    assert sum(pauses[1:]) == pytest.approx(seconds, abs=KEPT / 2)


@pytest.mark.parametrize(
    ("outcome", "deciding", "is_kept"),
    [
        ("ok", "", True),
        ("ok", "failure", True),
        ("ok", "success failure", False),
        ("failed", "", True),
        ("failed", "success", True),
        ("failed", "failure", False),
        ("setup-failed", "failure", False),
        ("cancelled", "", False),
        (None, "", True),
        (None, "failure", False),
    ],
)
def test_the_pod_of_a_cancelled_task_or_of_one_that_decides_its_job_is_not_kept(
    volume: Path, pauses: list[float], outcome: str | None, deciding: str, *, is_kept: bool
) -> None:
    runtime = volume / "runtime.d"
    (runtime / "plan.json").write_text(json.dumps({"gang": True, "instances": {"worker": 2}}))
    if outcome is not None:
        (runtime / "exit.yaml").write_text(f'exitCode: 1\noutcome: "{outcome}"\n')
    assert print_runtime_log({"PAI_WORK_DIR": str(volume), DECIDING_VARIABLE: deciding}) == 0
    assert (sum(pauses[1:]) > 0) == is_kept


@pytest.mark.process
def test_the_pods_of_a_gang_are_there_until_all_of_it_have_passed_the_barrier(tmp_path: Path) -> None:
    hosts = {f"PAI_HOST_IP_worker_{index}": address(20 + index) for index in (0, 1)}
    attempt = {"name": "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", "value": "0_1", "source": "platform"}
    volumes = [tmp_path / str(index) for index in (0, 1)]
    for index, each in enumerate(volumes):
        (each / "logs" / "pod").mkdir(parents=True)
        (each / "runtime.d").mkdir()
        plan = {"role": "worker", "index": index, "instances": {"worker": 2}, "gang": True}
        (each / "runtime.d" / "plan.json").write_text(json.dumps({**plan, "environment": [attempt]}))
        (each / "runtime.d" / "shared.json").write_text(json.dumps({"peers": hosts}))
        log(each, b"over\n")
    port = {PORT_VARIABLE: "14999"}
    with sidecar(volumes[0], **port) as first:
        first.read(5)
        first.stop()
        with sidecar(volumes[1], **port) as last:
            last.read(5)
            began = time.monotonic()
            assert last.end() == b""
        assert first.end(None) == b""
    assert time.monotonic() - began < KEPT / 2


def test_a_task_that_ended_before_it_could_be_told_so_is_the_end(
    volume: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    log(volume, b"over\n")
    looks = 0

    def look(_numbers: object, _pause: float) -> None:
        nonlocal looks
        looks += 1
        if looks == MOST_LOOKS_AFTER_END:
            (volume / "runtime.d" / "state.json").write_text('{"phase": "ended"}')

    monkeypatch.setattr(signal, "sigtimedwait", look)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    assert print_runtime_log({"PAI_WORK_DIR": str(volume)}) == 0
    assert looks > 2 * MOST_LOOKS_AFTER_END
    assert capfd.readouterr().out == "over\n"


@pytest.mark.process
def test_it_needs_nothing_of_what_init_does(volume: Path) -> None:
    script = (
        "import signal, sys; sys.argv[1:] = ['init', '--print-logs'];"
        "signal.sigtimedwait = lambda numbers, pause: 15;"
        "from pai_runtime.cli import main; main();"
        "print(*(name for name in sys.modules if name.startswith(('yaml', 'pai_', 'jsonschema', 'pluggy'))))"
    )
    environment = {**os.environ, "PAI_WORK_DIR": str(volume)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split()) - {
        "pai_runtime.host",
        "pai_runtime.host.core_imports",
    }  # of all commands
    assert "pai_pod.runtime_log" in loaded
    packages = ("yaml", "jsonschema", "pluggy", "pai_runtime.job", "pai_runtime.host", "pai_runtime.plan")
    assert not [name for name in loaded if name.startswith(packages)]


@pytest.mark.process
def test_a_directory_that_is_none_is_said() -> None:
    done = subprocess.run(
        [PROGRAM, "init", "--print-logs"],
        env={**os.environ, "PAI_WORK_DIR": "volume"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "PAI_WORK_DIR" in done.stderr


_names = st.text(st.characters(categories=["L"]), min_size=1, max_size=10)
_variables = st.dictionaries(
    _names,
    st.fixed_dictionaries(
        {"source": st.sampled_from(["platform", "cmd", PEERS])}, optional={"value": st.text()}
    ),
)


@given(_variables, _variables)
def test_what_is_told_is_read_and_the_last_line_counts(first: Any, last: Any) -> None:
    log = b"log\n" + told_line(first) + b"more\n" + told_line(last) + b"[pai-runtime\n"
    own = {name: each for name, each in last.items() if each["source"] != PEERS}
    assert read_told(log) == own
    assert [is_told(line) for line in log.splitlines()] == [False, True, False, True, False]
    shared = SharedVariables(
        {}, {name: each.get("value", "") for name, each in last.items() if name not in own}
    )
    whole = with_peers(own, shared)
    assert whole.keys() == last.keys()
    assert all(whole[name] == each for name, each in own.items())


def test_of_too_many_variables_the_largest_are_left_out() -> None:
    sizes = {f"V{number}": number * 100 for number in range(100)}
    line = told_line({name: {"source": "cmd", "value": "x" * size} for name, size in sizes.items()})
    assert len(line) <= len(PREFIX) + MOST_BYTES + 1
    kept = read_told(line)
    assert list(kept) == list(sizes)[: len(kept)]
    assert len(kept) > 20


@pytest.mark.parametrize("text", [b"{", b"[]", b"[" * 100_000])
def test_a_line_that_is_none_of_ours_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="e"):
        read_told(PREFIX + text)


def test_a_log_without_the_line_tells_nothing() -> None:
    assert read_told(b"log\n") == {}


@given(
    lines=st.lists(st.sampled_from([b"[pai-run", b"said\n", b"\n", told_line({}), state_line({})])),
    sizes=st.lists(st.integers(1, 40), min_size=1),
)
def test_what_is_told_is_left_out_of_a_log_wherever_that_is_cut(lines: list[bytes], sizes: list[int]) -> None:
    log = b"".join(lines)
    expected = b"".join(line for line in log.splitlines(keepends=True) if not is_told(line))
    told, kept, start = ToldFilter(), b"", 0
    for size in itertools.cycle(sizes):
        if start >= len(log):
            break
        kept += told.feed(log[start : start + size])
        start += size
    assert kept + told.flush() == without_told(log) == expected
