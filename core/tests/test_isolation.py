"""Isolation: a task sees this machine's files, and what it writes stays in its own folder (promise 9)."""

import contextlib
import errno
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pai_runtime.engines.local.isolation import Isolation
from pai_runtime.engines.local.launch import Isolated
from pai_task.layout import WRITTEN
from tests.support import PROGRAM, cli, job, write_job
from tests.task_harness import isolating, plan

NOBODY = 64999
"""A user without a name, and not the one by which the kernel shows those that a namespace does not have."""


pytestmark = [pytest.mark.process, pytest.mark.needs("user namespaces")]


_OF_PODMAN = Path("/etc/containers")
"""Where podman keeps the networks of root; other tests make some meanwhile."""


def _checksums(*folders: Path) -> dict[str, str]:
    """What is in the folders, and the names of what is in the root."""
    found = {path.name: "" for path in Path("/").iterdir()}
    for path in (path for folder in folders for path in folder.rglob("*")):
        if _OF_PODMAN in path.parents:
            continue
        if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[str(path)] = str(path.lstat().st_mode)
    return found


WRITES = [
    "set -e",
    "mkdir -p /dataset && echo data > /dataset/file",
    "echo setting > /etc/of-a-job",
    'echo state > "$HOME/of-a-job"; echo changed > "$HOME/known"; rm "$HOME/unwanted"',
    "echo scratch > /tmp/of-a-job",
    "echo shared > /dev/shm/of-a-job",
    "test -f /usr/local/pai/logs/runtime.log",
    'cat /dataset/file /etc/of-a-job "$HOME/of-a-job" "$HOME/known" /tmp/of-a-job',
]
READ = "data\nsetting\nstate\nchanged\nscratch\n"


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that every user may look into, as pytest's are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _make_home(folder: Path) -> None:
    folder.mkdir()
    (folder / "known").write_text("as it was\n")
    (folder / "unwanted").write_text("still there\n")


def _assert_kept(task: Path, home: Path) -> None:
    written = task / WRITTEN
    assert (written / "dataset/file").read_text() == "data\n"
    assert (written / "etc/of-a-job").read_text() == "setting\n"
    assert (written / str(home)[1:] / "known").read_text() == "changed\n"
    top = {path.name for path in written.iterdir()}
    assert top == {"dataset", "etc", "tmp"} | {home.parts[1]}


def test_a_job_that_writes_everywhere_leaves_the_machine_as_it_was(tmp_path: Path) -> None:
    home = tmp_path / "home"
    _make_home(home)
    before = _checksums(Path("/etc"), home)
    path = write_job(tmp_path, job(worker={"commands": WRITES}))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "required", env={"HOME": str(home)})
    assert (ended.returncode, ended.stdout) == (0, READ), ended.stderr
    assert _checksums(Path("/etc"), home) == before
    assert not Path("/dev/shm/of-a-job").exists()
    _assert_kept(tmp_path / "run/worker/0", home)


@pytest.mark.needs("root")
def test_so_does_the_job_of_an_ordinary_user(anybodys: Path) -> None:
    own = anybodys / "own"
    task, home, package = own / "run/task", own / "home", anybodys / "package"
    (task / "work").mkdir(parents=True)
    (task / "plan.json").write_text(json.dumps(plan(task, "\n".join(WRITES)).to_json()))
    _make_home(home)
    for path in (own, home, *home.iterdir(), task.parent, task, *task.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    before = _checksums(Path("/etc"), home)
    ended = _as_nobody(_ordinary_python(), "-I", "-c", isolating(package), str(task.parent), "[]", home=home)
    assert (ended.returncode, ended.stdout) == (0, READ), ended.stderr
    assert _checksums(Path("/etc"), home) == before
    assert not Path("/dev/shm/of-a-job").exists()
    _assert_kept(task, home)


@pytest.mark.needs("root")
def test_the_code_of_an_ordinary_users_job_is_below_a_layer_of_the_task(anybodys: Path) -> None:
    own, package = anybodys / "own", anybodys / "package"
    task, code = own / "run/task", own / "run/a code: of, mine"
    (task / "work").mkdir(parents=True)
    (code / "package").mkdir(parents=True)
    (code / "known").write_text("as it was\n")
    script = "cat known; echo changed > known; rmdir package; cat /usr/local/pai/work/*"
    (task / "plan.json").write_text(json.dumps(plan(task, script).to_json()))
    for path in (own, *own.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    before = _checksums(code)
    argv = [_ordinary_python(), "-I", "-c", isolating(package), str(task.parent), "[]", str(code)]
    ended = _as_nobody(*argv)
    assert (ended.returncode, ended.stdout) == (0, "as it was\nchanged\n"), ended.stderr
    assert _checksums(code) == before
    assert (task / "work/known").read_text() == "changed\n"
    assert {path.name for path in own.glob("run/*")} == {"task", code.name}


@pytest.mark.needs("root", "mounts")
@pytest.mark.parametrize("mode", ["0700", "0710", "0711"])
def test_what_is_mounted_where_an_ordinary_user_may_not_look_is_no_hindrance(
    anybodys: Path, mode: str
) -> None:
    task, package, locked = anybodys / "run/task", anybodys / "package", anybodys / "locked"
    (task / "work").mkdir(parents=True)
    (locked / "mounted").mkdir(parents=True)
    (task / "plan.json").write_text(json.dumps(plan(task, "echo here; echo > /opt/of-a-job").to_json()))
    for path in (task.parent, task, *task.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    mounts = f"cd {shlex.quote(str(locked))} && mount -t tmpfs tmpfs mounted && chmod {mode} ."
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    argv = [_ordinary_python(), "-I", "-c", isolating(package), str(task.parent), "[]"]
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mounts} && cd / && exec {user} "$@"', "sh", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("here\n", "")
    assert not Path("/opt/of-a-job").exists()


FUSE = """
import ctypes, os, sys
fd = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fd},rootmode=40000,user_id=1234,group_id=1234".encode()
if ctypes.CDLL(None).mount(b"fuse", os.fsencode(sys.argv[1]), b"fuse", 0, options):
    sys.exit("cannot be mounted")
os.set_inheritable(fd, True)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.needs("root", "FUSE")
def test_a_file_system_that_another_user_has_mounted_for_himself_is_no_hindrance(tmp_path: Path) -> None:
    own = tmp_path / "his"
    own.mkdir()
    path = write_job(tmp_path, job(worker={"commands": ["echo here"]}))
    mounted = ["unshare", "-m", sys.executable, "-c", FUSE, str(own)]
    run = [str(PROGRAM), "run", str(path), "--out", str(tmp_path / "run"), "--isolation", "required"]
    ended = subprocess.run(
        [*mounted, *run],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "here\n"), ended.stderr


def test_storage_is_a_real_folder_and_read_only_where_the_plan_says_so(tmp_path: Path) -> None:
    task = tmp_path / "task"
    (task / "work").mkdir(parents=True)
    for name in ("data", "models"):
        (tmp_path / name).mkdir()
    script = (
        "set -e; echo weights > /mnt/models/deep/file; cat /mnt/data/in; ! touch /mnt/data/out 2>/dev/null"
    )
    (tmp_path / "data" / "in").write_text("numbers\n")
    (task / "plan.json").write_text(json.dumps(plan(task, script).to_json()))
    binds = [
        (str(tmp_path / "data"), "/mnt/data", True),
        (str(tmp_path / "models"), "/mnt/models/deep"),
    ]
    argv = [sys.executable, "-m", "tests.isolated_task", str(tmp_path), json.dumps(binds)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "numbers\n"), ended.stderr
    assert (tmp_path / "models" / "file").read_text() == "weights\n"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["in"]


def test_storage_that_was_let_pass_is_below_what_hooks_run_from_and_makes_nothing_in_the_machine(
    tmp_path: Path,
) -> None:
    task, new = tmp_path / "task", Path("/dev", tmp_path.name)
    (task / "work").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/planted").touch()
    paths = ["/usr/local/pai/runtime", f"{task}/private", str(new)]
    script = f'ls {shlex.join(paths[:2])}; for path in {shlex.join(paths)}; do [ ! -e "$path/planted" ]; done'
    (task / "plan.json").write_text(json.dumps(plan(task, script).to_json()))
    binds = [(str(tmp_path / "data"), path) for path in paths]
    argv = [sys.executable, "-m", "tests.isolated_task", str(tmp_path), json.dumps(binds)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not new.exists()


def test_tasks_do_not_see_what_each_other_wrote_and_nothing_stays_mounted(tmp_path: Path) -> None:
    commands = [
        "ls /of-one 2>/dev/null && exit 1",
        "mkdir /of-one",
        "grep overlay /proc/self/mountinfo | wc -l > overlays",
    ]
    document = job(worker={"commands": commands, "instances": 2})
    ended = cli("run", write_job(tmp_path, document), "--out", tmp_path / "run", "--isolation", "required")
    assert ended.returncode == 0, ended.stderr
    for index in ("0", "1"):
        assert int((tmp_path / "run/worker" / index / "work/overlays").read_text()) > 0
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


REFUSING = (
    "echo 0 > /proc/sys/user/max_user_namespaces;exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"
)
"""In a user namespace of its own, what a container that allows no namespaces is like."""


def _run_where_the_kernel_refuses(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    path = write_job(tmp_path, job(worker={"instances": 2}))
    script = f'{REFUSING} "$@"'
    return subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script, "sh", PROGRAM, "run", path, "--out", tmp_path / "run", *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_where_the_kernel_refuses_tasks_run_plainly_and_that_is_said_once(tmp_path: Path) -> None:
    ended = _run_where_the_kernel_refuses(tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("tasks are not isolated (a user namespace: No space left on device)") == 1


def test_required_isolation_that_the_kernel_refuses_starts_nothing(tmp_path: Path) -> None:
    ended = _run_where_the_kernel_refuses(tmp_path, "--isolation", "required")
    assert ended.returncode == 2
    assert "cannot isolate tasks on this machine: a user namespace" in ended.stderr
    assert not (tmp_path / "run").exists()


def _run_with_mounts(tmp_path: Path, mounts: str, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run a job where something has been mounted first."""
    path, out = write_job(tmp_path, job(worker={"commands": list(commands)})), tmp_path / "run"
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh", PROGRAM, "run", path, "--out", out],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.needs("root", "mounts")
def test_a_folder_that_cannot_be_a_layer_is_read_only_in_the_tasks_and_said(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    place, beside = shlex.quote(str(odd)), shlex.quote(str(tmp_path / "beside"))
    commands = [f"test -e {place}/self && ! touch {place}/new 2>/dev/null", f"echo beside > {beside}"]
    ended = _run_with_mounts(tmp_path, f"mount -t proc proc {place}", *commands)
    assert ended.returncode == 0, ended.stderr
    (line,) = (each for each in ended.stderr.splitlines() if "read-only in the tasks" in each)
    assert f"read-only in the tasks: {odd}" in line
    assert not (tmp_path / "beside").exists()


@pytest.mark.needs("root", "mounts")
def test_a_folder_with_mounts_in_it_is_as_writable_as_any_other(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    (outer / "file").write_text("known\n")
    (outer / "mounted").write_text("below\n")
    go = f"cd {shlex.quote(str(outer))}"
    mounts = f"{go} && mount -t tmpfs tmpfs inner && echo old > inner/deep"
    mounts += " && mount --bind /etc/hostname mounted"
    ended = _run_with_mounts(
        tmp_path,
        mounts,
        f"{go} && echo new > file && mv file other && echo more > inner/deep && cat other inner/deep",
        "cmp mounted /etc/hostname",
    )
    assert (ended.returncode, ended.stdout, "read-only" in ended.stderr) == (0, "new\nmore\n", False)
    assert (outer / "file").read_text() == "known\n"
    written = tmp_path / "run/worker/0" / WRITTEN / str(outer)[1:]
    assert (written / "other").read_text() == "new\n"
    assert (written / "inner/deep").read_text() == "more\n"


@pytest.mark.needs("nested overlays")
def test_a_run_in_a_task_is_isolated_too(tmp_path: Path) -> None:
    inner = write_job(tmp_path, job(worker={"commands": ["mkdir /of-inner"]}), "inner.yaml")
    run = shlex.join([str(PROGRAM), "run", str(inner), "--out", "inner", "--isolation", "required"])
    commands = [run, "! test -e /of-inner"]
    path = write_job(tmp_path, job(worker={"commands": commands}))
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "required")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "run/worker/0/work/inner/worker/0" / WRITTEN / "of-inner").is_dir() is False


@pytest.mark.parametrize("name", ["with space", "a,b:c", "back\\slash", "line\nbreak", "linked/run"])
def test_the_folder_of_a_run_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    path = write_job(tmp_path, job(worker={"commands": ["echo here > /etc/of-a-job"]}))
    ended = cli("run", path, "--out", tmp_path / name, "--isolation", "required")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / name / "worker/0" / WRITTEN / "etc/of-a-job").read_text() == "here\n"


def test_a_run_in_shared_memory_is_isolated_too(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        path = write_job(tmp_path, job(worker={"commands": ['mkdir /dataset && ls "$PAI_WORK_DIR"']}))
        ended = cli("run", path, "--out", folder / "run", "--isolation", "required")
        assert ended.returncode == 0, ended.stderr
    finally:
        shutil.rmtree(folder)


def test_a_task_that_cannot_be_isolated_leaves_a_record(tmp_path: Path) -> None:
    task = tmp_path / "task"
    (task / "work").mkdir(parents=True)
    (task / "plan.json").write_text(json.dumps(plan(task).to_json()))
    (tmp_path / "layers").touch()
    argv = [sys.executable, "-m", "tests.isolated_task", str(tmp_path), "[]"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (241, False)
    assert yaml.safe_load((task / "exit.yaml").read_text())["outcome"] == "setup-failed"


def test_isolation_can_be_turned_off(tmp_path: Path) -> None:
    path = write_job(
        tmp_path, job(worker={"commands": [f"echo here > {shlex.quote(str(tmp_path))}/outside"]})
    )
    ended = cli("run", path, "--out", tmp_path / "run", "--isolation", "none")
    assert (ended.returncode, (tmp_path / "outside").read_text()) == (0, "here\n")
    assert "tasks are not isolated (--isolation none)" in ended.stderr
    assert not (tmp_path / "run/worker/0" / WRITTEN).exists()


def _as_nobody(*argv: str, home: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _ordinary_python() -> str:
    """A Python that everybody may run, as one below root's home is not."""
    for path in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if (
                _as_nobody(path, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 10))").returncode
                == 0
            ):
                return path
    return pytest.fail("no Python that an ordinary user may run")


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_is_unmounted_and_removed_while_a_root_is_made_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """A race with the containers of others, so what the kernel answers then is given here."""
    mounted = tmp_path / "merged"
    mounted.mkdir()
    made = Isolation(tmp_path / "task", Isolated(0, str(tmp_path), str(tmp_path / "layers")))

    def layer(path: Path, **_: bool) -> None:
        if is_gone:
            path.rmdir()
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr(made, "_layer", layer)
    with contextlib.nullcontext() if is_gone else pytest.raises(FileNotFoundError):
        made._layers_on_top([mounted])
