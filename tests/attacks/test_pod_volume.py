"""A pod volume that is full, has hostile leftovers, or is named wrongly: init does no harm."""

import errno
import fcntl
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pai_pod.directories import BadDirectory, pod_directories
from tests.init_harness import PodFolder, config
from tests.needs import MOUNT_NAMESPACE

_FULL = """
import os, subprocess, sys
from pathlib import Path
from tests.init_harness import PodFolder, config
pod = PodFolder(Path(sys.argv[1]), RUNTIME_CONFIG=config("true"))
pod.logs.mkdir(parents=True)
folder = {"volume": pod.volume, "logs": pod.logs.parent}[sys.argv[2]]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "full", folder], check=True)
pod.logs.mkdir(parents=True, exist_ok=True)
with open(pod.logs.parent / "fill", "wb", buffering=0) as file:
    while True:
        try:
            file.write(bytes(4096))
        except OSError:
            break
done = pod.start()
print(done.communicate()[1])
sys.exit(done.returncode)
"""


@pytest.fixture
def pod(tmp_path: Path) -> PodFolder:
    return PodFolder(tmp_path, RUNTIME_CONFIG=config("true"))


@pytest.mark.process
@pytest.mark.needs("mounts")
@pytest.mark.parametrize(
    ("full", "code", "said"), [("logs", 0, "the task can start"), ("volume", 1, os.strerror(errno.ENOSPC))]
)
def test_what_a_full_disk_keeps_from_the_log_is_printed(
    tmp_path: Path, full: str, code: int, said: str
) -> None:
    """Without logs, a task can start all the same."""
    argv = [*MOUNT_NAMESPACE, sys.executable, "-c", _FULL, str(tmp_path), full]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert said in done.stdout.rstrip().splitlines()[-1]
    assert "Traceback" not in done.stdout


@pytest.mark.process
def test_leftovers_of_every_kind_are_gone_and_nothing_outside_is_touched(
    pod: PodFolder, tmp_path: Path
) -> None:
    outside = tmp_path / "host"
    outside.mkdir()
    (outside / "file").write_text("host")
    (outside / "file").chmod(0o600)
    pod.logs.mkdir(parents=True)
    for name in ("runtime.d", "bundle", "init.d", ".bundle.part", "config", "secrets", "logs/prelog_link"):
        (pod.volume / name).symlink_to(outside)
    for name in ("runtime", "logs/pod-uid/init.log"):
        (pod.volume / name).symlink_to(outside / "file")
    (pod.logs / "hard").hardlink_to(outside / "file")
    for fifo in (pod.volume / "fifo", pod.logs / "runtime.log", pod.logs / "prelog_fifo"):
        os.mkfifo(fifo)
    done = pod.init()
    assert done.returncode == 0, done.stderr
    assert {path.name for path in outside.iterdir()} == {"file"}
    assert (outside / "file").read_text() == "host"
    assert (outside / "file").stat().st_mode & 0o777 == 0o600
    names = {path.name for path in pod.volume.iterdir()}
    assert names == {"bundle", "init.d", "logs", "runtime", "runtime.d"}
    assert not any((pod.volume / name).is_symlink() for name in names)


@pytest.mark.process
@pytest.mark.parametrize("name", ["logs", "logs/pod-uid"])
@pytest.mark.parametrize("kind", ["link", "fifo", "file"])
def test_what_is_in_the_place_of_the_logs_is_replaced(
    pod: PodFolder, tmp_path: Path, name: str, kind: str
) -> None:
    path, outside = pod.volume / name, tmp_path / "host"
    outside.mkdir()
    path.parent.mkdir(exist_ok=True)
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.touch()
    assert pod.init().returncode == 0
    assert "the task can start" in pod.log
    assert not list(outside.iterdir())


@pytest.mark.process
@pytest.mark.needs("root", "util-linux")
def test_earlier_logs_that_are_closed_to_init_fail_nothing(pod: PodFolder) -> None:
    closed = pod.logs / "prelog_1" / "closed"
    closed.mkdir(parents=True)
    closed.chmod(0)
    os.chown(closed, 1234, 1234)
    done = pod.start(wrap=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    assert done.wait() == 0
    done.communicate()
    assert "the task can start" in pod.log


@pytest.mark.process
def test_logs_may_be_anywhere_on_the_volume(pod: PodFolder) -> None:
    assert pod.init(PAI_LOG_DIR=str(pod.volume / "my" / "logs")).returncode == 0
    assert "the task can start" in (pod.volume / "my" / "logs" / "init.log").read_text()


@pytest.mark.process
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PAI_LOG_DIR", ""),
        ("PAI_LOG_DIR", "/runtime"),
        ("PAI_LOG_DIR", "/bundle/logs"),
        ("PAI_LOG_DIR", "/runtime.d/logs"),
        ("PAI_INIT_DIR", ""),
        ("PAI_INIT_DIR", "/bundle"),
        ("PAI_INIT_DIR", "/logs/pod-uid"),
        ("PAI_RUNTIME_DIR", ""),
        ("PAI_RUNTIME_DIR", "/bundle"),
        ("PAI_RUNTIME_DIR", "/logs/pod-uid/task"),
        ("PAI_SECRET_DIR", "/init.d"),
    ],
)
def test_directories_that_are_within_each_other_are_refused(
    pod: PodFolder, variable: str, value: str
) -> None:
    (pod.volume / "mine").touch()
    done = pod.init(**{variable: f"{pod.volume}{value}"})
    assert done.returncode == 1
    assert variable in done.stderr
    assert [path.name for path in pod.volume.iterdir()] == ["mine"]


@pytest.mark.parametrize("variable", ["PAI_WORK_DIR", "PAI_RUNTIME_DIR", "PAI_INIT_DIR", "PAI_LOG_DIR"])
@pytest.mark.parametrize(
    "root",
    [
        "/",
        "//",
        "/proc/self/root",
        pytest.param(sys.prefix, id="the environment"),
        pytest.param(sys.base_prefix, id="the interpreter"),
    ],
)
def test_what_the_runtime_is_in_is_never_emptied(
    monkeypatch: pytest.MonkeyPatch, variable: str, root: str
) -> None:
    """Nothing is begun here, for what it would empty is this machine's."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # as where the command runs
    with pytest.raises(BadDirectory, match="PAI_"):
        pod_directories({variable: root})


@pytest.mark.process
def test_nor_is_the_environment_that_the_command_is_installed_in(pod: PodFolder, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!a})\n")
    start = "from pai_runtime.console_script import main; main()"
    done = subprocess.run(
        [environment / "bin/python", "-c", start, "init"],
        env={**os.environ, **pod.environment, "PAI_WORK_DIR": str(environment)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "pai-runtime: PAI_WORK_DIR: " in done.stderr) == (1, True)
    assert (environment / "bin/python").exists()


@pytest.mark.process
def test_only_one_init_container_at_a_time_is_at_work_on_a_volume(pod: PodFolder) -> None:
    (pod.volume / "mine").touch()
    other = os.open(pod.volume, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    done = pod.init()
    assert done.returncode == 1
    assert os.strerror(errno.EWOULDBLOCK) not in done.stderr
    assert str(pod.volume) in done.stderr
    assert [path.name for path in pod.volume.iterdir()] == ["mine"]
    os.close(other)
    assert pod.init().returncode == 0


_MOUNTED = """
import subprocess, sys
from pathlib import Path
from tests.init_harness import PodFolder, config
pod = PodFolder(Path(sys.argv[1]), RUNTIME_CONFIG=config("true"))
(pod.logs / "mine").mkdir(parents=True)
(pod.logs / "runtime.log").touch()
subprocess.run(["mount", "-t", "tmpfs", "mine", pod.logs / "mine"], check=True)
(pod.logs / "mine" / "kept").touch()
done = pod.start()
print(done.communicate()[1])
assert (pod.logs / "mine" / "kept").exists()
assert not (pod.logs / "runtime.log").exists()
sys.exit(done.returncode)
"""


@pytest.mark.process
@pytest.mark.needs("mounts")
def test_what_is_mounted_below_the_logs_stays(tmp_path: Path) -> None:
    argv = [*MOUNT_NAMESPACE, sys.executable, "-c", _MOUNTED, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
