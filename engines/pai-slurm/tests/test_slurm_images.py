"""Tasks on a real Slurm in their images, with the storages of the profile: by Charliecloud, for real."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pai_runtime.engine import CannotRun
from pai_runtime.engine.local import Bind
from pai_slurm.contained import contained
from pai_slurm.images import Images, image_of
from pai_slurm.storages import is_in_place
from tests.slurm_cluster import NEEDS
from tests.slurm_fixtures import write_profile
from tests.slurm_user import ON, detached, log, role, run, state
from tests.support import callback, cli, content, exit_record, job, until, write_job

CHARLIECLOUD = pytest.mark.needs("charliecloud", "busybox-static", "user namespaces")
OCI = pytest.mark.needs("runc", "busybox-static", "user namespaces")
EACH = pytest.mark.parametrize(
    "program", [pytest.param("charliecloud", marks=CHARLIECLOUD), pytest.param("oci", marks=OCI)]
)

pytestmark = pytest.mark.needs(*NEEDS)

IMAGE = "team/tools:1.2"


@pytest.fixture
def program() -> str:
    """The program by which images are run."""
    return "charliecloud"


@pytest.fixture
def here(
    slurm_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: Path, program: str
) -> Path:
    """The working directory of a user whose profile runs images, and has the storage ``data``."""
    assert slurm_runs == tmp_path / "runs"
    monkeypatch.setenv("PAI_RUNTIME_BUNDLE", str(bundle))
    monkeypatch.chdir(tmp_path)
    image = tmp_path / "images" / "team%tools+1.2"
    root = image / "rootfs" if program == "oci" else image
    for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "ch"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    for name in ("cat", "echo", "ls", "sh", "sleep", "test", "touch"):
        (root / "bin" / name).symlink_to("busybox")
    for name in ("passwd", "group"):
        (root / "etc" / name).touch()
    (root / "of-the-image").write_text("yes")
    (root / "ch/environment").write_text("PATH=/bin\nOF_IMAGE=set\n")
    if program == "oci":
        (image / "config.json").write_text('{"process": {"env": ["PATH=/bin", "OF_IMAGE=set"]}}')
    (tmp_path / "data").mkdir()
    profile(tmp_path, program)
    return tmp_path


def profile(here: Path, program: str | None) -> None:
    images = {"images": {"program": program, "folder": str(here / "images")}} if program else {}
    write_profile(here / "config", runs=str(here / "runs"), storages={"data": str(here / "data")}, **images)


def in_image(image: str = IMAGE, **fields: Any) -> dict[str, Any]:
    document = job(**fields)
    document["prerequisites"] = [{"name": "image", "type": "dockerimage", "uri": image}]
    return document


def with_storage(document: dict[str, Any], path: str, name: str = "data", **more: Any) -> dict[str, Any]:
    """A job whose tasks have a storage at a path."""
    storages = [{"name": name, "mountPath": path, **more}]
    return {**document, "extras": {**document.get("extras", {}), "storages": storages}}


@pytest.mark.process
@EACH
def test_tasks_run_in_their_image_with_its_variables_the_steps_and_their_secrets(
    here: Path, program: str
) -> None:
    says = ("cat /of-the-image", "echo", "echo $OF_IMAGE $PATH ${SLURM_STEP_ID:+step} $CUDA_VISIBLE_DEVICES")
    secret = "test '<% $secrets.key %>' = \"$(printf 's3cr3t%s' -of-the-job)\""
    gpu = 0 if program == "oci" else 1
    worker = role(*says, secret, "echo it > file", gpu=gpu, instances=2)
    hidden = "s3cr3t-of-the-job"
    document = in_image(name="inside", secrets={"key": hidden}, taskRoles={"worker": worker})
    ended = run(here, document)
    assert ended.returncode == 0, ended.stderr
    for task in ("worker/0", "worker/1"):
        said = content(log(here, "inside-1", task)).decode()
        assert said.startswith("yes\nset /bin step " if gpu else "yes\nset /bin step\n"), said
        assert (log(here, "inside-1", task).parents[2] / "work/file").read_text() == "it\n"
    files = [path for path in (here / "runs").rglob("*") if path.is_file()]
    assert not [path for path in files if hidden.encode() in content(path)]


@pytest.mark.process
@EACH
def test_a_storage_is_in_the_image_and_one_can_enter_and_stop_the_task(here: Path) -> None:
    waits = ("echo of-the-task > /data/seen", "echo up", "while :; do sleep 0.1; done")
    use = {"plugin": "cmd", "parameters": {"callbacks": [callback("containerExit", "echo bye > /data/bye")]}}
    extras = {"com.microsoft.pai.runtimeplugin": [use]}
    document = in_image(name="stored", taskRoles={"worker": role(*waits)}, extras=extras)
    name = detached(here, with_storage(document, "/data"))
    entered = cli("exec", name, "worker/0", *ON, "--", "cat", "/data/seen", "/of-the-image")
    assert (entered.returncode, entered.stdout) == (0, "of-the-task\nyes")
    cli("stop", name, *ON)
    until(lambda: state(name) == "cancelled")
    assert exit_record(here / "runs" / name / name / "worker/0")["outcome"] == "cancelled"
    assert {path.name: path.read_text() for path in (here / "data").iterdir()} == {
        "seen": "of-the-task\n",
        "bye": "bye\n",
    }


@pytest.mark.process
@CHARLIECLOUD
def test_what_the_program_says_is_told_of_a_task_that_it_cannot_start(here: Path) -> None:
    (here / "images/team%tools+1.2/etc/passwd").unlink()
    ended = run(here, in_image(name="broken", taskRoles={"worker": role("true")}))
    assert ended.returncode not in (0, 2)
    assert "etc/passwd" in ended.stderr


def problems(here: Path, document: dict[str, Any]) -> list[tuple[str, str]]:
    """The codes and fields of what ``validate --on`` finds."""
    found = json.loads(cli("validate", write_job(here, document), *ON, "--json").stdout)
    return [(each["code"], each["field"]) for each in found["problems"]]


@pytest.mark.process
def test_images_and_storages_that_are_not_there_are_problems_of_the_job(here: Path) -> None:
    worker = {"worker": role("true")}
    document = in_image("other:1", name="lacks", taskRoles=worker)
    assert problems(here, with_storage(document, "/x", name="dat")) == [
        ("no-image", "prerequisites[0].uri"),
        ("unknown-storage", "extras.storages[0].name"),
    ]
    written = with_storage(in_image(name="written", taskRoles=worker), "/x", readOnly=True)
    assert problems(here, written) == [("not-read-only", "extras.storages[0].name")]


@pytest.mark.process
def test_gpus_in_oci_bundles_are_a_problem_where_slurm_does_not_tell_which(here: Path) -> None:
    profile(here, "oci")
    document = in_image(name="blind", taskRoles={"worker": role("true", gpu=1)})
    assert problems(here, document) == [("gpus-not-told", "taskRoles.worker.resourcePerInstance.gpu")]


@pytest.mark.process
def test_without_images_a_storage_is_only_what_the_nodes_have_mounted_at_its_path(here: Path) -> None:
    profile(here, None)
    document = in_image(name="there", taskRoles={"worker": role("true")})
    assert problems(here, with_storage(document, "/elsewhere")) == [
        ("not-mounted", "extras.storages[0].name")
    ]
    link = here / "link"
    link.symlink_to("/proc")
    assert is_in_place(str(link), Path("/proc"))
    assert not is_in_place(str(here), here)
    assert not is_in_place("/elsewhere", Path("/proc"))


@pytest.mark.process
@pytest.mark.needs("user namespaces")
def test_a_storage_that_the_nodes_have_by_a_bind_mount_is_where_a_job_wants_it(tmp_path: Path) -> None:
    storage, place = tmp_path / "storage", tmp_path / "place"
    storage.mkdir()
    place.mkdir()
    asked = (
        "import sys; from pathlib import Path; from pai_slurm.storages import is_in_place;"
        " print(is_in_place(sys.argv[1], Path(sys.argv[2])))"
    )
    argv = [sys.executable, "-c", asked, str(place), str(storage)]
    bound = f'mount --bind {storage} {place} && exec "$@"'
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", bound, "sh", *argv]
    found = [
        subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in (argv, inside)
    ]
    assert found == ["False\n", "True\n"]


@pytest.mark.parametrize(
    ("program", "uri", "called"),
    [
        ("apptainer", "team/tools:1.2", "docker://team/tools:1.2"),
        ("apptainer", "here:1", "{}/here+1.sif"),
        ("pyxis", "team/tools:1.2", "team/tools:1.2"),
        ("pyxis", "nvcr.io/nvidia/pytorch:24.01", "nvcr.io#nvidia/pytorch:24.01"),
        ("charliecloud", "team/tools:1.2", ""),
        ("charliecloud", "there:1", "{}/there+1"),
    ],
)
def test_an_image_is_a_file_of_its_name_or_what_the_program_can_pull(
    tmp_path: Path, program: str, uri: str, called: str
) -> None:
    for name in ("here+1.sif", "there+1"):
        (tmp_path / name).touch()
    assert image_of(Images(program, str(tmp_path)), uri) == called.format(tmp_path)


def test_apptainer_and_pyxis_are_told_the_mounts_and_where_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither can be had here: what they are told is all that can be tested."""
    (tmp_path / "apptainer").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    data = [Bind("/shared/data", "/data", read_only=True)]
    mounts = ["/b:/usr/local/pai/bundle:ro", "/run/w/0:/usr/local/pai/runtime.d", "/shared/data:/data:ro"]
    work = "/usr/local/pai/runtime.d/work"
    made = contained(
        Images("apptainer", bundle="/b"), "docker://x", "/run/w/0", data, gpu=True, oci_bundle=tmp_path
    )
    assert list(made.command) == [
        str(tmp_path / "apptainer"),
        *("--quiet", "exec", "--no-home", f"--pwd={work}"),
        *(f"--bind={mount}" for mount in mounts),
        *("--nv", "docker://x"),
    ]
    made = contained(Images("pyxis", bundle="/b"), "x", "/run/w/0", data, gpu=True, oci_bundle=tmp_path)
    assert (list(made.command), list(made.options)) == (
        [],
        [
            "--container-image=x",
            f"--container-mounts={','.join(mounts)}",
            f"--container-workdir={work}",
            "--no-container-mount-home",
        ],
    )


@pytest.mark.parametrize("path", ["/a:/etc", "/a,b"])
def test_a_path_that_would_be_read_as_two_is_refused(path: str) -> None:
    with pytest.raises(CannotRun):
        contained(
            Images("pyxis", bundle="/b"),
            "x",
            "/run/w/0",
            [Bind("/d", path)],
            gpu=False,
            oci_bundle=Path("/run"),
        )
