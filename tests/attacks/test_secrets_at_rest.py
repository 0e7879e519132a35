"""No secret is left on a disk, in a core or with a process, whenever the runtime is killed (promise 3)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.attacks.test_task_folder import isolated
from tests.plugin_factory import Site, uses
from tests.support import PROGRAM, cli, content, job, write_job

pytestmark = pytest.mark.process

VALUE = "correct-horse-battery-staple"


def files_with_it(folder: Path) -> list[Path]:
    """Also while tasks that have just been killed still remove directories."""
    files = [Path(above, name) for above, _, names in os.walk(folder) for name in names]
    return [
        path for path in files if path.is_file() and not path.is_symlink() and VALUE.encode() in content(path)
    ]


def secret_job(folder: Path, *commands: str, instances: int = 1) -> list[str]:
    """The argv that runs a job with a secret; `folder` for the run, beside which the secret is."""
    (folder.parent / "secrets.yaml").write_text(f"token: {VALUE}\n")
    document = job(worker={"commands": ["test -n '<% $secrets.token %>'", *commands], "instances": instances})
    path = write_job(folder.parent, document)
    return [
        str(PROGRAM),
        "run",
        str(path),
        "--out",
        str(folder),
        "--secrets",
        str(folder.parent / "secrets.yaml"),
    ]


@pytest.mark.parametrize("mode", ["auto", "none"])
@pytest.mark.parametrize("milliseconds", range(0, 400, 40))
def test_wherever_in_its_start_a_run_is_killed_no_file_has_the_value(
    tmp_path: Path, milliseconds: int, mode: str
) -> None:
    argv = secret_job(tmp_path / "run", "exec sleep 1000", instances=2)
    engine = subprocess.Popen(
        [*argv, "--isolation", mode], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    time.sleep(milliseconds / 1000)  # what is tested holds at any time; this only spreads the times
    engine.kill()
    engine.wait()
    assert files_with_it(tmp_path / "run") == []


@pytest.mark.needs("strace")
def test_the_value_is_written_to_no_file_and_is_in_no_argv(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    argv = ["strace", "-f", "-s", "100000", "-e", "trace=openat,execve,write", "-o", str(trace)]
    ended = subprocess.run([*argv, *secret_job(tmp_path / "run"), "--isolation", "none"], check=False)
    assert ended.returncode == 0
    executed = [line for line in trace.read_text(errors="replace").splitlines() if "execve(" in line]
    assert executed
    assert not [line for line in executed if VALUE in line]
    assert "secrets.json" not in trace.read_text(errors="replace")


@isolated
def test_what_a_plugin_keeps_in_private_is_never_on_the_disk(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add(
        "org.example.keeps",
        "@hookimpl\ndef pai_init(use, task):\n"
        "    (task.private / 'key').write_text(use.parameters['token'])\n",
        hooks=["pai_init"],
    )
    document = job(**uses("org.example.keeps"))
    document["prerequisites"][1]["parameters"] = {"token": "<% $secrets.token %>"}
    shared = tmp_path / "shared"
    shared.mkdir()
    os.mkfifo(shared / "up")
    document["extras"] = {"storages": [{"name": "s"}]}
    document["taskRoles"]["worker"]["commands"] = [
        "test -s ../private/key; test $(stat -c %a ../private) = 700; echo > /mnt/s/up; exec sleep 1000"
    ]
    (tmp_path / "secrets.yaml").write_text(f"token: {VALUE}\n")
    path = write_job(tmp_path, document)
    options = ("--secrets", tmp_path / "secrets.yaml", f"--storage=s={shared}", "--isolation", "required")
    engine = subprocess.Popen(
        [str(PROGRAM), "run", str(path), "--out", str(tmp_path / "run"), *map(str, options)],
        env={**os.environ, **site.environment()},
        stderr=subprocess.DEVNULL,
    )
    try:
        (shared / "up").read_text()
        assert files_with_it(tmp_path / "run") == []
    finally:
        engine.send_signal(signal.SIGKILL)
        engine.wait()


LOOKS = """
import gc, sys
@hookimpl
def pai_init(use, task):
    value = FIRST + LAST
    assert value not in open("/proc/self/environ").read() + str(sys.argv) + str(use)
    for each in list(gc.get_objects()):
        if isinstance(each, dict) and each is not globals():
            assert value not in [item for item in list(each.values()) if isinstance(item, str)]
"""
"""Looks for the value of a secret in all that its process has; its own text does not have it whole."""


def test_a_hook_has_the_secrets_of_its_own_use_only(tmp_path: Path) -> None:
    site = Site(tmp_path)
    first, last = VALUE[:14], VALUE[14:]
    site.add("org.example.looks", f"FIRST, LAST = {first!r}, {last!r}\n{LOOKS}", hooks=["pai_init"])
    document = job(**uses("org.example.looks"))
    document["taskRoles"]["worker"]["commands"] = ["test -n '<% $secrets.token %>'"]
    (tmp_path / "secrets.yaml").write_text(f"token: {VALUE}\n")
    path = write_job(tmp_path, document)
    ended = site.cli("run", path, "--out", tmp_path / "run", "--secrets", tmp_path / "secrets.yaml")
    assert ended.returncode == 0, ended.stderr


def test_a_task_cannot_read_the_memory_or_the_files_of_its_supervisor(tmp_path: Path) -> None:
    reads = "! cat /proc/$PPID/mem; ! ls /proc/$PPID/root/; ! ls /proc/$PPID/cwd/"
    argv = secret_job(tmp_path / "run", reads)
    ended = cli(*argv[1:], "--isolation", "auto")
    assert ended.returncode == 0, ended.stderr


_DUMPABLE = """
import ctypes, sys
import pai_runtime.cli as command
def look():
    sys.stdout.write(str(ctypes.CDLL(None).prctl(3)))  # PR_GET_DUMPABLE
    return 0
command._main = look
sys.exit(command.main())
"""


def test_no_command_can_be_looked_into_or_leaves_a_core_file_from_before_it_reads_any_secret() -> None:
    argv = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{_DUMPABLE}"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "0"
