"""What a plugin imports: `pai_runtime.plugin`, and what its functions promise; and `pai_runtime.engine`."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pai_task
from pai_pod import engine as pods
from pai_runtime import engine, plugin
from pai_runtime.command import arguments, output, policies, runs, schemas
from pai_runtime.command import jobs as command_jobs
from pai_runtime.engine import documents, jobs, keeping, messages, records
from pai_runtime.plugin import (
    Failure,
    Task,
    UserError,
    backoff,
    port_is_taken,
    read_logs,
    read_yaml,
    retry_after,
)

SLOW = {"dataclasses", "inspect", "json", "pathlib", "pluggy", "random", "re", "typing", "yaml"}


@pytest.mark.parametrize(
    "api",
    [
        plugin,
        engine,
        pods,
        documents,
        jobs,
        keeping,
        messages,
        records,
        arguments,
        command_jobs,
        policies,
        output,
        runs,
        schemas,
    ],
    ids=lambda api: api.__name__,
)
def test_every_name_of_an_api_is_there(api: ModuleType) -> None:
    assert all(getattr(api, name) for name in api.__all__)


@pytest.mark.parametrize("api", [engine, pods], ids=["engines", "engines with pods"])
def test_what_an_engine_has_to_know_is_little(api: ModuleType) -> None:
    assert len(api.__all__) <= 30


@pytest.mark.process
def test_the_api_costs_a_hook_no_slow_import() -> None:
    sources = [str(Path(plugin.__file__).parents[2]), str(Path(str(pai_task.__file__)).parents[1])]
    code = f"import sys; sys.path[:0] = {sources}; import pai_runtime.plugin; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert not SLOW & set(done.stdout.split())


@given(st.integers(1, 10_000), st.floats(0.01, 10), st.floats(10, 1000), st.floats(0, 1))
def test_a_pause_is_a_random_part_of_a_limit_that_doubles(
    failures: int, first: float, longest: float, part: float
) -> None:
    limit = min(longest, first * 2.0 ** min(failures - 1, 100))
    assert backoff(failures, first, longest, lambda low, high: low + part * (high - low)) == part * limit
    assert 0 <= backoff(failures, first, longest) <= limit


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("12", 12),
        (" 12 ", 12),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 0),
        ("soon", 0),
        ("-5", 0),
        ("\u00b2", 0),
        ("", 0),
        (None, 0),
    ],
)
def test_what_a_server_asks_to_wait(value: str | None, seconds: float) -> None:
    assert retry_after(value, now=100) == seconds


@given(st.text() | st.from_regex(r"\w{3}, \d{1,2} \w{3} \d{1,5} \d\d:\d\d:\d\d [+-]?\w{1,5}", fullmatch=True))
def test_whatever_a_server_asks_the_pause_is_a_number_of_seconds(value: str) -> None:
    assert retry_after(value, now=100) >= 0


@pytest.mark.process
@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.needs("IPv6"))])
def test_a_script_sees_whether_a_port_is_taken(shell: str, host: str) -> None:
    def is_taken(word: int | str) -> bool:
        script = f"port={port}\nif {port_is_taken(word)}; then echo yes; fi"
        return subprocess.check_output([shell, "-c", script], text=True, timeout=60) == "yes\n"

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        assert is_taken(port)
        assert is_taken('"$port"')
    assert not is_taken(port)


def _task(folder: Path) -> Task:
    (folder / "logs/user-all").mkdir(parents=True)
    return Task("job", "worker", 0, {"worker": 1}, {}, folder)


def test_the_end_of_a_log_goes_on_over_its_rotated_files_and_has_what_the_disk_had_no_room_for(
    tmp_path: Path,
) -> None:
    task = _task(tmp_path)
    (tmp_path / "logs/user-all/current").write_text("three\n")
    (tmp_path / "logs/user-all/current.1").write_text("two\n")
    (tmp_path / "logs/user-all/current.2").write_text("one\n")
    (tmp_path / "logs/runtime.log").write_text("runtime\n")
    failure = Failure("failed", 1, "command", tails=("two\nthree\n", "not on the disk"))
    assert read_logs(task, failure, 100) == (b"one\ntwo\nthree\n", b"runtime\n\nnot on the disk")
    (tmp_path / "logs/runtime.log").write_text("to run\n")
    assert read_logs(task, failure, 8) == (b"o\nthree\n", b"to run\n\nthe disk")


def test_what_a_task_puts_in_the_place_of_a_log_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    task = _task(tmp_path)
    (tmp_path / "other").write_text("of somebody else")
    (tmp_path / "logs/user-all/current").symlink_to(tmp_path / "other")
    os.mkfifo(tmp_path / "logs/runtime.log")
    assert read_logs(task, Failure("failed", 1, "command"), 100) == (b"", b"")


def test_a_yaml_file_knows_where_each_value_stands(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- a: yes\n  b: [1, 2]\n")
    file = read_yaml(tmp_path / "a.yaml")
    assert file.data == [{"a": "yes", "b": [1, 2]}]
    assert file.position((0, "b", 1)) == f"{tmp_path}/a.yaml:2:10"
    assert file.position((0, "c")) == f"{tmp_path}/a.yaml:1:3"


@pytest.mark.parametrize("text", [None, "a: [", "a: 1\na: 2", json.dumps("x" * 5_000_000)])
def test_a_file_that_is_no_sound_yaml_is_an_error_for_the_user(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(UserError, match=r"a\.yaml"):
        read_yaml(tmp_path / "a.yaml")
