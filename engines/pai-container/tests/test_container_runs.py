"""Jobs in containers of their images, by Podman: as local runs, and nothing is left of them."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.podman import IMAGE, OF_USER, USER, make_images, podman, podman_environment
from tests.support import PROGRAM, ROOT, callback, cli, content, exit_record, job, made_once, until, write_job
from tests.test_documentation import blocks

pytestmark = [pytest.mark.process, pytest.mark.needs("containers")]

RESOURCES = {"cpu": 1, "memoryMB": 64, "gpu": 0}
_CMD = "com.microsoft.pai.runtimeplugin"


@pytest.fixture
def containers(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, bundle: Path
) -> Iterator[Path]:
    """The working directory of runs in containers, of which nothing is left in the end."""
    storage = made_once(tmp_path_factory, "podman", make_images)
    for name, value in podman_environment(storage).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PAI_RUNTIME_BUNDLE", str(bundle))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield work
    assert left(tmp_path) == []


def locks(folder: Path) -> list[Path]:
    """The lock of each run whose cache is in a folder; its stem is the name of the run's network."""
    return list((folder / "cache/pai-runtime/containers").glob("*"))


def left(folder: Path) -> list[str]:
    """The containers and networks of runs whose cache is in a folder, and the files that tell of them."""
    names = [path.stem for path in locks(folder)]
    found = podman({}, "ps", "--all", "--format={{.Names}}").split()
    found += podman({}, "network", "ls", "--format={{.Name}}").split()
    return [*names, *(each for name in names for each in found if each.startswith(name))]


def in_image(image: str = IMAGE, **fields: Any) -> dict[str, Any]:
    """A job whose tasks run in an image."""
    document = job(**fields)
    document["prerequisites"] = [{"name": "image", "type": "dockerimage", "uri": image}]
    for role in document["taskRoles"].values():
        role["dockerImage"] = "image"
    return document


def role(*commands: str, **more: Any) -> dict[str, Any]:
    return {"instances": 1, "resourcePerInstance": RESOURCES, "commands": list(commands), **more}


def run(folder: Path, document: dict[str, Any], *more: str) -> subprocess.CompletedProcess[str]:
    return cli("run", write_job(folder, document), "--container", "podman", "--out", folder / "run", *more)


def started(folder: Path, document: dict[str, Any], *more: str) -> subprocess.Popen[bytes]:
    """A run in a process of its own, once its task has written ``up``."""
    job_file = str(write_job(folder, document))
    argv = [str(PROGRAM), "run", job_file, "--container", "podman", "--out", str(folder / "run")]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([*argv, *more], stdout=said, stderr=said)
    until(lambda: b"up\n" in content(log(folder)) or process.poll() is not None)
    assert process.poll() is None, content(folder / "said")
    return process


def log(folder: Path, task: str = "worker/0") -> Path:
    return folder / "run" / task / "logs/user-all/current"


WAITS = ("trap 'echo told; exit 5' TERM", "echo up", "while :; do sleep 0.1; done")
EXITS = {_CMD: [{"plugin": "cmd", "parameters": {"callbacks": [callback("taskExits", "echo over >ended")]}}]}


def test_tasks_run_in_their_image_and_find_each_other_by_name(containers: Path) -> None:
    roles = {
        "server": role("echo found | timeout 60 nc -l -p $PAI_server_0_http_PORT", "pwd; hostname; exit 7"),
        "client": role(
            "until nc -w 9 $PAI_HOST_IP_server_0 $PAI_server_0_http_PORT 2>/dev/null; do sleep 0.1; done",
            "sleep 100",
        ),
    }
    done = run(containers, in_image(taskRoles=roles))
    assert done.returncode == 7, done.stderr
    assert content(log(containers, "server/0")) == b"/srv\nserver-0\n"
    assert content(log(containers, "client/0")) == b"found\n"


def test_code_storages_and_secrets_are_there(containers: Path, tmp_path: Path) -> None:
    code, data, kept = (tmp_path / name for name in ("code", "data", "kept"))
    for each in (code, data, kept):
        each.mkdir()
    (code / "train.sh").write_text("cat /mnt/data/x; echo $KEY | tee /mnt/kept/key; ! touch /mnt/data/y\n")
    (data / "x").write_text("of the storage\n")
    storages = [{"name": "data", "readOnly": True}, {"name": "kept"}]
    document = in_image(
        taskRoles={"worker": role("export KEY=<% $secrets.key %>", "sh train.sh")},
        secrets={"key": "s3cr3t-value"},
        extras={"storages": storages},
    )
    given = [f"--storage={name}={path}" for name, path in (("data", data), ("kept", kept))]
    done = run(containers, document, "--code", str(code), *given)
    assert done.returncode == 0, done.stderr
    shown = content(log(containers)).decode()
    assert shown.startswith("of the storage\n")
    assert "s3cr3t-value" not in shown
    assert (kept / "key").read_text() == "s3cr3t-value\n"


def test_a_task_is_retried_whatever_the_user_of_its_image_and_its_files_are_ours(containers: Path) -> None:
    worker = role("id -u; mkdir -p kept/deep; umask 077; echo x >kept/deep/file; exit 4", taskRetryCount=1)
    code = containers / "code"
    code.mkdir()
    extras = {"gangAllocation": False, "retryOn": "always"}
    document = in_image(OF_USER, taskRoles={"worker": worker}, extras=extras)
    done = run(containers, document, "--code", str(code))
    assert done.returncode == 4, done.stderr
    for attempt in (containers / "run/worker/0", containers / "run/worker/0/attempts/0"):
        assert content(attempt / "logs/user-all/current") == f"{USER}\n".encode()
        assert (attempt / "work/kept/deep/file").read_text() == "x\n"
    assert cli("rm", containers / "run").returncode == 0
    assert not (containers / "run").exists()


def test_a_task_is_looked_into_and_stopped_as_a_local_one(containers: Path, tmp_path: Path) -> None:
    worker = role("export KEY=<% $secrets.key %>", *WAITS)
    document = in_image(taskRoles={"worker": worker}, secrets={"key": "s3cr3t-value"}, extras=EXITS)
    process = started(containers, document)
    inside = cli("exec", containers / "run", "worker/0", "cat", "/proc/1/comm", "/etc/passwd")
    assert inside.returncode == 0, inside.stderr
    assert inside.stdout.endswith("root:x:0:0:root:/root:/bin/sh\n")
    (lock,) = locks(tmp_path)
    assert "s3cr3t-value" not in podman({}, "inspect", f"{lock.stem}-worker-0")
    assert "s3cr3t-value" not in of_all_processes()
    assert cli("stop", containers / "run").returncode == 0
    assert process.wait(60) == 130
    said = content(log(containers)).splitlines()
    assert said[0] == b"up"
    assert b"told" in said  # before or after what the shell says of the end of its sleep
    assert exit_record(containers / "run/worker/0")["outcome"] == "cancelled"


def test_a_task_that_is_stopped_while_its_container_starts_was_cancelled(
    containers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only a stand-in for the program fails each time at just this moment.
    program = tmp_path / "bin/podman"
    program.parent.mkdir()
    program.write_text(f"""#!/bin/sh
        case "$1 $*" in
            "kill "*) touch {tmp_path}/told; exit ;;
            "run "*-owner*) ;;
            "run "*)
                touch {tmp_path}/starts
                until [ -e {tmp_path}/told ]; do sleep 0.05; done
                echo "Error: container is stopped" >&2
                exit 126 ;;
        esac
        exec {shutil.which("podman")} "$@"
    """)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    job_file = write_job(containers, in_image(taskRoles={"worker": role(*WAITS)}))
    argv = [str(PROGRAM), "run", str(job_file), "--container", "podman", "--out", str(containers / "run")]
    process = subprocess.Popen(argv)
    until(lambda: (tmp_path / "starts").exists() or process.poll() is not None)
    assert cli("stop", containers / "run").returncode == 0
    assert process.wait(60) == 130
    assert exit_record(containers / "run/worker/0")["outcome"] == "cancelled"


def of_all_processes() -> str:
    """The arguments of all processes."""
    found = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return b"\n".join(found).decode("utf-8", "replace")


def test_a_run_that_is_killed_ends_its_tasks(containers: Path, tmp_path: Path) -> None:
    process = started(containers, in_image(taskRoles={"worker": role(*WAITS)}, extras=EXITS))
    process.kill()
    process.wait()
    until(lambda: "exitCode" in content(containers / "run/worker/0/exit.yaml").decode())
    assert exit_record(containers / "run/worker/0")["outcome"] == "cancelled"
    assert b"told\n" in content(log(containers))
    (lock,) = locks(tmp_path)
    until(lambda: lock.stem not in podman({}, "network", "ls", "--format={{.Name}}").split())
    lock.unlink()


def test_what_a_killed_run_has_left_is_removed_by_the_next_one(containers: Path) -> None:
    process = started(containers, in_image(taskRoles={"worker": role(*WAITS)}))
    (keeper,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGSTOP)  # else it would clean up itself
    os.kill(int(keeper), signal.SIGKILL)
    process.kill()
    process.wait()
    (containers / "run").rename(containers / "before")
    done = run(containers, in_image(taskRoles={"worker": role("echo next")}))
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("openssh-server", "openssh-client", "libnss-wrapper")
def test_init_steps_run_before_the_container_which_has_what_they_have_made(containers: Path) -> None:
    """The keys of ssh, here."""
    # The other task may not listen yet.
    first = "ssh -o ConnectionAttempts=60 worker-1 hostname; exit 9"
    worker = role("[ $PAI_TASK_INDEX = 0 ] || exec sleep 100", first, instances=2)
    use = {"plugin": "ssh", "parameters": {"jobssh": True}}
    done = run(containers, in_image(taskRoles={"worker": worker}, extras={_CMD: [use]}))
    assert done.returncode == 9, done.stderr
    assert content(log(containers)) == b"worker-1\n"


@pytest.mark.needs("root")
def test_memory_and_dev_shm_are_limited(containers: Path) -> None:
    limit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null || true"
    worker = role(limit, "df -m /dev/shm | tail -n 1")
    worker["resourcePerInstance"] = {**RESOURCES, "shmMB": 16}
    worker["extraContainerOptions"] = {"shmMB": 16}
    del worker["resourcePerInstance"]["shmMB"]
    done = run(containers, in_image(taskRoles={"worker": worker}))
    assert done.returncode == 0, done.stderr
    limit, shm = content(log(containers)).decode().splitlines()
    assert int(limit) == 64 << 20
    assert shm.split()[1] == "16"


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("localhost:1/no-such", "localhost:1/no-such:latest is not on this machine"),
        (f"{IMAGE}@sha256:{'0' * 64}", "is not on this machine"),
    ],
)
def test_an_image_that_cannot_be_had_is_named_with_its_place(containers: Path, image: str, said: str) -> None:
    done = run(containers, in_image(image))
    assert done.returncode == 2
    assert "job.yaml:" in done.stderr
    assert said in done.stderr


def test_what_is_not_installed_is_said(containers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "/nonexistent")
        done = run(containers, in_image())
    assert done.returncode == 2
    assert "there is no podman on the PATH" in done.stderr


def test_options_of_local_runs_that_have_no_meaning_are_refused(containers: Path) -> None:
    done = run(containers, in_image(), "--isolation", "required")
    assert done.returncode == 2
    assert "--isolation cannot be used" in done.stderr
    assert json.loads(cli("ps", "--json").stdout) == []


def test_the_tutorial_does_in_containers_what_it_says(
    containers: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its image stands for one that has the Python and the TensorBoard of this machine."""
    document = ROOT / "docs" / "tutorial.md"
    for block in blocks(document):
        if block.file in ("code/train.py", "job.yaml"):
            (containers / block.file).parent.mkdir(exist_ok=True)
            (containers / block.file).write_text(block.text, "utf-8")
    path = containers / "job.yaml"
    path.write_text(path.read_text("utf-8").replace("python:3.12", "localhost/cars"), "utf-8")
    (containers / "secrets.yaml").write_text("team: s3cr3t-value\n", "utf-8")
    (containers / "results").mkdir()
    base = Path(sys.base_prefix)
    places = dict.fromkeys(map(str, ("/usr/lib", "/lib", "/lib64", base / "bin", base / "lib", sys.prefix)))
    storage = made_once(tmp_path_factory, "podman", make_images)
    for name, value in podman_environment(storage, [f"{each}:{each}:ro" for each in places]).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "Containerfile").write_text(f"FROM {IMAGE}\nENV PATH={Path(sys.executable).parent}:/bin\n")
    podman({}, "build", "--quiet", "--tag=localhost/cars", str(tmp_path))

    told = next(block for block in blocks(document) if "run --container" in block.text)
    well, badly, logs = (shlex.split(line)[1:] for line in told.text.splitlines())
    done = cli(*well)
    assert done.returncode == 0, done.stderr
    assert (containers / "results" / "slope.txt").read_text("utf-8") == "2.68\n"
    assert "peak of memory, and CPU time: worker/0 " in done.stderr
    assert "s3cr3t-value" not in done.stdout + done.stderr
    done = cli(*badly)
    assert done.returncode == 1, done.stderr
    assert cli(*logs).stdout == "the fit diverges\n"
    done = cli(*well, "--set", "steps=1000000000", "--detach")
    assert done.returncode == 0, done.stderr
    while_it_runs(lambda: cli("open", "latest", "tensorboard", "--print").returncode == 0)
    address = cli("open", "latest", "tensorboard", "--print").stdout.strip()
    with urlopen(address, timeout=60) as page:  # noqa: S310 - a URL of this machine, as the test shows
        assert b"TensorBoard" in page.read()
    while_it_runs(lambda: cli("exec", "latest", "worker/1", "--", "sh", "-c", ":").returncode == 0)
    assert cli("stop").returncode == 0
    until(lambda: state_of_latest() != "running")
    assert state_of_latest() == "cancelled"


def while_it_runs(look: Callable[[], bool]) -> None:
    """Wait until `look` finds something; the latest run must not end before."""
    until(lambda: look() or state_of_latest() != "running")
    assert state_of_latest() == "running", cli("ps", "latest").stdout + cli("logs", "latest").stdout


def state_of_latest() -> str:
    return str(json.loads(cli("ps", "latest", "--json").stdout)["state"])
