"""A task cannot reach out of its folder (promise 9), nor be helped to by what others do there afterwards."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import pai_runtime
import pai_task
from pai_task.folder import Folder
from tests.plugin_factory import Site, uses
from tests.support import NOT_ANALYSED, PROGRAM, callback, cli, content, job, write_job

isolated = pytest.mark.needs("user namespaces")
needs_root = pytest.mark.needs("root", "mounts")
MODES = [pytest.param("required", marks=isolated), "none"]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the machine's, with what a clean-up or a retry would look for."""
    folder = tmp_path / "victim"
    for name in ("bin", "lib", "empty", "next", "work", "0"):
        (folder / name).mkdir(parents=True)
    (folder / "exit.yaml").write_text("precious")
    return folder


def contents(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path.relative_to(folder)), path.lstat().st_mode) for path in folder.rglob("*"))


def run(
    folder: Path, *commands: str, mode: str = "required", **worker: Any
) -> subprocess.CompletedProcess[str]:
    document = job(
        worker={"commands": list(commands), **worker}, extras={"gangAllocation": False, **NOT_ANALYSED}
    )
    return cli("run", write_job(folder, document), "--out", folder / "run", "--isolation", mode)


OF_A_TASK = {
    "written": "mv ../written ../w2; rm -rf ../written; ln -s {victim} ../written",
    "attempts": "ln -s {victim} ../attempts",
    "next": "mkdir ../attempts; ln -s {victim} ../attempts/next",
    "files": "rm -rf ../files; ln -s {victim} ../files",
    "logs": "mv ../logs ../l2; ln -s {victim} ../logs",
    "private": "rm -rf ../private; ln -s {victim} ../private",
    "work": 'cd /; mv "$PAI_WORK_DIR" "${{PAI_WORK_DIR}}2"; ln -s {victim} "$PAI_WORK_DIR"',
    "the record": "cd ..; for f in exit.yaml .exit.yaml.part; do rm -f $f; ln -s {victim}/exit.yaml $f; done",
    "a hard link": "cd ..; for f in .exit.yaml.part state.json; do rm -f $f; ln {victim}/exit.yaml $f; done",
    "the folder itself": (
        "cd /; i=$PAI_TASK_INDEX; mv {run}/worker/$i {run}/worker/$i-moved; ln -s {victim} {run}/worker/$i"
    ),
}
"""What a task may do to its own folder."""

OF_A_RUN = {
    "its role": "cd /; mv {run}/worker {run}/other; ln -sn {victim} {run}/worker",
    "layers": "cd /; rm -rf {run}/.layers; ln -sn {victim} {run}/.layers",
}
"""Two tasks do it at once: the second must not make its link in the folder that the first one leads to."""


@pytest.mark.process
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("links", [OF_A_TASK, *({name: OF_A_RUN[name]} for name in OF_A_RUN)], ids=min)
def test_a_link_in_a_tasks_folder_leads_nobody_elsewhere(
    tmp_path: Path, victim: Path, links: dict[str, str], mode: str
) -> None:
    """Each in a task that fails and is tried again, and then succeeds."""
    before = contents(victim)
    places = {"victim": shlex.quote(str(victim)), "run": shlex.quote(str(tmp_path / "run"))}
    commands = [command.format(**places) for command in links.values()]
    cases = "".join(f"{number}) ( {command} ) ;; " for number, command in enumerate(commands))
    ended = run(
        tmp_path,
        f"{{ case $((PAI_TASK_INDEX % {len(links)})) in {cases} esac; }} >/dev/null 2>&1 || :",
        "exit $((FC_TASK_ATTEMPT_ID == 0))",
        mode=mode,
        instances=max(2, len(links)),
        taskRetryCount=1,
    )
    assert "Traceback" not in ended.stderr
    assert contents(victim) == before
    assert (victim / "exit.yaml").read_text() == "precious"


@pytest.mark.process
@isolated
def test_a_retry_is_made_whatever_the_task_has_put_in_its_way(tmp_path: Path, victim: Path) -> None:
    command = f"ln -s {shlex.quote(str(victim))} ../attempts; echo try $FC_TASK_ATTEMPT_ID; exit 1"
    ended = run(tmp_path, command, taskRetryCount=1)
    assert (ended.returncode, ended.stdout) == (1, "try 0\ntry 1\n"), ended.stderr


@pytest.mark.process
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("folder", ["../made", "../work"])
def test_a_retry_is_made_whatever_rights_the_task_has_left_itself(
    tmp_path: Path, folder: str, mode: str
) -> None:
    command = f"mkdir -p {folder}; chmod 0 {folder}; echo try $FC_TASK_ATTEMPT_ID; exit 1"
    ended = run(tmp_path, command, mode=mode, taskRetryCount=1)
    assert (ended.returncode, ended.stdout) == (1, "try 0\ntry 1\n"), ended.stderr


@pytest.mark.process
@isolated
def test_of_its_run_a_task_sees_its_own_folder_and_none_of_the_runtimes_files(tmp_path: Path) -> None:
    command = shlex.join(["ls", "-A", f"{tmp_path}/run", f"{tmp_path}/run/worker", "..", "/usr/local/pai"])
    ended = run(tmp_path, command, instances=2)
    assert ended.returncode == 0, ended.stderr
    seen = {line.partition("| ")[2] for line in ended.stdout.splitlines()}
    assert not seen & {
        "run.json",
        "plan.json",
        "shared.json",
        "exit.yaml",
        "state.json",
        "variables.json",
        "written",
        ".layers",
    }
    assert {"work", "logs", "private"} <= seen
    for line in ended.stdout.splitlines():
        assert not line.startswith("worker/0 | 1")


@pytest.mark.process
@isolated
def test_a_task_cannot_write_its_logs_or_the_code_that_runs_beside_it(tmp_path: Path) -> None:
    runtime = "find ../runtime -name supervisor.py 2>/dev/null | sort | head -n 1 || :"
    ended = run(
        tmp_path,
        "! echo forged >> ../logs/runtime.log",
        "! rm -rf ../logs/user-stdout",
        f'file=$({runtime}); test -n "$file"; ! echo >> "$file"; ! mv ../runtime ../r2',
    )
    assert ended.returncode == 0, ended.stderr
    assert "forged" not in (tmp_path / "run/worker/0/logs/runtime.log").read_text()


@pytest.mark.process
@isolated
def test_what_a_task_puts_into_its_folder_is_in_its_folder_afterwards(tmp_path: Path) -> None:
    ended = run(tmp_path, "mkdir ../made; echo here > ../made/file; echo > ../exit.yaml")
    assert ended.returncode == 0, ended.stderr
    task = tmp_path / "run/worker/0"
    assert (task / "made/file").read_text() == "here\n"
    assert yaml.safe_load((task / "exit.yaml").read_text())["outcome"] == "ok"
    assert not (task / "private").exists()
    assert not (task / "runtime").exists()


HOOK = "@hookimpl\ndef pai_task_exits(use, task):\n    print('as it was planned')\n"


@pytest.mark.process
@isolated
def test_what_a_task_writes_over_the_runtime_or_a_plugin_does_not_run_beside_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    plugin = site.add("org.example.late", HOOK, hooks=["pai_task_exits"])
    document = job(**uses("org.example.late"))
    packages = (Path(str(each.__file__)).parent for each in (pai_runtime, pai_task))
    runtime = [path for package in packages for path in package.rglob("*.py")]
    own = [plugin.code, *runtime, json.__file__, sys.executable]
    document["taskRoles"]["worker"]["commands"] = [
        f"for file in {' '.join(map(str, own))}",
        "do (rm -f $file; echo 'raise SystemExit(3)' > $file) 2>/dev/null || :",
        "done",
    ]
    path = write_job(tmp_path, document)
    ended = site.cli("run", path, "--out", tmp_path / "run", "--isolation", "required")
    assert ended.returncode == 0, ended.stderr
    assert "as it was planned" in (tmp_path / "run/worker/0/logs/runtime.log").read_text()
    assert "callbackFailures" not in yaml.safe_load((tmp_path / "run/worker/0/exit.yaml").read_text())
    assert plugin.code.read_text().endswith(HOOK)


def storage_job(folder: Path, *paths: str) -> Path:
    storages = [{"name": f"s{number}", "mountPath": path} for number, path in enumerate(paths)]
    return write_job(folder, job(extras={"storages": storages}))


@pytest.mark.process
@isolated
@pytest.mark.parametrize("name", ["deep", "deep/er"])
def test_a_storage_below_a_link_inside_of_another_makes_no_folder_elsewhere(
    tmp_path: Path, victim: Path, name: str
) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    for folder in (outer, inner):
        folder.mkdir()
    (outer / "link").symlink_to(victim)
    before = contents(victim)
    path = storage_job(tmp_path, "/mnt/outer", f"/mnt/outer/link/{name}")
    ended = cli(
        *("run", path, "--out", tmp_path / "run", "--isolation", "required"),
        *(f"--storage=s0={outer}", f"--storage=s1={inner}"),
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert str(outer / "link") in ended.stderr
    assert contents(victim) == before
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@isolated
def test_a_users_folder_that_is_a_link_is_not_followed(tmp_path: Path, victim: Path) -> None:
    storage = tmp_path / "storage"
    storage.mkdir()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    (storage / user).symlink_to(victim)
    path = write_job(tmp_path, job(extras={"storages": [{"name": "s0", "share": False}]}))
    ended = cli("run", path, "--isolation", "required", f"--storage=s0={storage}", cwd=tmp_path)
    assert (ended.returncode, str(storage / user) in ended.stderr) == (2, True)


@pytest.mark.process
@isolated
def test_a_storage_that_would_hide_the_run_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    path = storage_job(tmp_path, str(tmp_path))
    ended = cli("run", path, "--out", tmp_path / "run", f"--storage=s0={tmp_path / 'storage'}")
    assert ended.returncode == 2
    assert str(tmp_path / "run") in ended.stderr
    assert "--out" in ended.stderr


@pytest.mark.process
@isolated
@pytest.mark.parametrize("below", ["", "deep/er"])
def test_a_storage_in_which_the_run_would_be_is_refused_before_anything_starts(
    tmp_path: Path, below: str
) -> None:
    (tmp_path / "storage" / below).mkdir(parents=True)
    out = tmp_path / "storage" / below / "run"
    (tmp_path / "link").symlink_to(tmp_path / "storage")
    path = storage_job(tmp_path, "/mnt/s")
    ended = cli("run", path, "--out", out, f"--storage=s0={tmp_path / 'link'}")
    assert (ended.returncode, "--out" in ended.stderr, out.exists()) == (2, True, False)


@pytest.mark.process
@isolated
def test_auto_does_without_isolation_only_where_the_kernel_refuses(tmp_path: Path) -> None:
    path = write_job(tmp_path, job())
    script = 'ulimit -f 0; exec "$@"'
    argv = ["sh", "-c", script, "sh", str(PROGRAM), "run", str(path), "--out", str(tmp_path / "run")]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "not isolated" not in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@isolated
@needs_root
def test_auto_does_without_where_a_user_namespace_gives_no_rights(tmp_path: Path) -> None:
    path = write_job(tmp_path, job())
    script = "mount --bind /proc /proc && mount -o remount,bind,ro /proc || exit 9; "
    script += 'exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$@"'
    argv = ["unshare", "-m", "sh", "-c", script, "sh", PROGRAM, "run", path, "--out", tmp_path / "run"]
    ended = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "/proc/self/setgroups" in ended.stderr


@pytest.mark.process
@isolated
def test_a_task_sees_neither_the_engine_nor_into_its_supervisor(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        "test $$ -lt 100; test $PPID = 1",
        "! cat /proc/1/mem; ! ls /proc/1/root/",
        "for fd in /proc/1/fd/*; do ! test -e $fd/plan.json; done",
        "kill -STOP 1; kill -KILL 1; echo alive",
        "test $(ls -d /proc/[0-9]* | wc -l) -lt 10",
    )
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr


@pytest.mark.process
@isolated
def test_the_supervisor_leaves_no_core_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    path = write_job(
        tmp_path, job(worker={"commands": [f"echo > {shlex.quote(str(tmp_path))}/up", "exec sleep 1000"]})
    )
    script = 'ulimit -c unlimited; exec "$@"'
    argv = ["sh", "-c", script, "sh", PROGRAM, "run", path, "--out", tmp_path / "run", "--isolation", "none"]
    with subprocess.Popen(list(map(str, argv)), stderr=subprocess.DEVNULL) as engine:
        (tmp_path / "up").read_text()
        pid = json.loads((tmp_path / "run/worker/0/state.json").read_text())["pid"]
        os.kill(pid, signal.SIGSEGV)
        assert engine.wait(60) == 128 + signal.SIGSEGV
    assert list((tmp_path / "run/worker/0/work").iterdir()) == []


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A job whose processes hold a FIFO open, which ends when none of them is left."""
    shared = tmp_path / "shared"
    shared.mkdir()
    for name in ("held", "up"):
        os.mkfifo(shared / name)
    keep = {
        "name": "keep",
        "callbacks": [callback("taskStarts", "echo secret-of-$((4 * 5)) > ../private/key")],
    }
    escape = "setsid sleep 1000 >/dev/null 2>&1 &"
    hide = "mount -t tmpfs none /proc 2>/dev/null || :"
    commands = ["exec 9> /mnt/s/held", escape, hide, "echo > /mnt/s/up", "exec sleep 1000"]
    worker = {"prerequisites": ["keep"], "commands": commands}
    document = job(prerequisites=[keep], worker=worker, extras={"storages": [{"name": "s"}]})
    argv = [PROGRAM, "run", write_job(tmp_path, document), "--out", tmp_path / "run", f"--storage=s={shared}"]
    held = os.open(shared / "held", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(held, True)
    with subprocess.Popen(
        list(map(str, argv)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as engine:
        (shared / "up").read_text()
        pid = json.loads((tmp_path / "run/worker/0/state.json").read_text())["pid"]
        yield engine, pid, tmp_path / "run"
    assert os.read(held, 1) == b""
    os.close(held)


@pytest.mark.process
@isolated
def test_nothing_is_left_of_a_task_when_engine_and_supervisor_are_killed_together(
    running: tuple[subprocess.Popen[bytes], int, Path],
) -> None:
    engine, supervisor, folder = running
    os.kill(engine.pid, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    os.kill(engine.pid, signal.SIGKILL)
    engine.wait(60)
    for path in folder.rglob("*"):
        assert not path.is_file() or b"secret-of-20" not in content(path)


@pytest.mark.process
@isolated
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nor_when_the_task_hides_its_processes_from_the_supervisor(
    running: tuple[subprocess.Popen[bytes], int, Path], number: signal.Signals
) -> None:
    engine, _, _ = running
    os.kill(engine.pid, number)
    engine.wait(60)


class TestFolder:
    """The one module by which such folders are read and written."""

    @given(parts=st.lists(st.sampled_from(["a", "b", "..", ".", "", "link", "\u00e4"]), max_size=6))
    def test_no_name_leads_out_of_it(
        self, tmp_path_factory: pytest.TempPathFactory, parts: list[str]
    ) -> None:
        outer = tmp_path_factory.mktemp("outer")
        (outer / "in").mkdir()
        (outer / "in" / "link").symlink_to(outer)
        (outer / "a").write_text("outside")
        with Folder.at(outer / "in") as folder:
            with contextlib.suppress(OSError):
                folder.write("/".join(parts), "inside")
            with contextlib.suppress(OSError):
                assert folder.read("/".join(parts), 100) == b"inside"
        assert (outer / "a").read_text() == "outside"
        assert {path.name for path in outer.iterdir()} == {"in", "a"}

    @pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "link", "device"])
    def test_what_is_no_file_is_neither_opened_nor_waited_for(self, tmp_path: Path, kind: str) -> None:
        make_odd(tmp_path / "odd", kind)
        with Folder.at(tmp_path) as folder:
            with pytest.raises(OSError, match="odd"):
                folder.read("odd", 10)
            with pytest.raises(OSError, match="odd"):
                folder.append("odd")
            folder.write("odd", "a file after all")
            assert folder.read("odd", 100) == b"a file after all"

    def test_an_error_names_the_whole_path_and_no_other(self, tmp_path: Path) -> None:
        with Folder.at(tmp_path) as folder, pytest.raises(OSError, match=str(tmp_path / "a/b")) as raised:
            folder.read("a/b", 1)
        assert "None" not in str(raised.value)

    def test_a_file_is_read_up_to_a_bound(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"x" * 11)
        with Folder.at(tmp_path) as folder:
            assert folder.read("file", 11) == b"x" * 11
            with pytest.raises(OSError, match="larger than 10 bytes"):
                folder.read("file", 10)

    @pytest.mark.process
    @needs_root
    @pytest.mark.parametrize("place", ["private", "private/in", "private/in/deep"])
    def test_what_is_mounted_in_a_folder_is_not_removed_with_it(
        self, tmp_path: Path, victim: Path, place: str
    ) -> None:
        (tmp_path / place).mkdir(parents=True)
        before = contents(victim)
        script = "from pathlib import Path; from pai_task.folder import Folder\n"
        script += f"Folder.at(Path({str(tmp_path)!r})).remove('private')"
        mount = f'{shlex.join(["mount", "--bind", str(victim), str(tmp_path / place)])} && exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", script]
        subprocess.run(argv, capture_output=True, check=False)
        assert contents(victim) == before

    @pytest.mark.process
    def test_a_tree_of_any_depth_and_with_any_rights_can_be_removed(self, tmp_path: Path) -> None:
        deep = f"import os\nos.chdir({str(tmp_path)!r})\n"
        deep += "for n in range(3000):\n    os.mkdir('d'); open('f', 'w'); os.chdir('d')\n"
        subprocess.run([sys.executable, "-c", deep], check=True)
        (tmp_path / "locked/in").mkdir(parents=True)
        (tmp_path / "locked/in/file").touch()
        (tmp_path / "locked/in").chmod(0)
        (tmp_path / "locked").chmod(0)
        (tmp_path / "d" / "link").symlink_to(tmp_path)
        with Folder.at(tmp_path) as folder:
            for name in folder.names():
                folder.remove(name)
        assert list(tmp_path.iterdir()) == []


def make_odd(path: Path, kind: str) -> None:
    """Something that is no file, where one is expected."""
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "socket":
            import socket  # noqa: PLC0415 - for this one

            with socket.socket(socket.AF_UNIX) as server:
                here = Path.cwd()
                os.chdir(path.parent)  # a socket's path is short
                server.bind(path.name)
                os.chdir(here)
        case "folder":
            (path / "in").mkdir(parents=True)
        case "link":
            path.symlink_to("/etc/hostname")
        case "device":
            path.symlink_to("/dev/zero")
