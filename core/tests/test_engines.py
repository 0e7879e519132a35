"""An engine profile leads to the engine of whatever distribution brings it, if the policies allow it."""

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pai_document.problems import InvalidInput
from pai_runtime.engines.finding import open_engine
from pai_runtime.engines.interface import Engine, RunRequest
from pai_runtime.host.discovery import InstalledPlugins
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY, read_policy
from tests.cluster_commands import Command
from tests.small_cluster import find_plugins_in, install_engine, write_profiles
from tests.support import job, write_job

ID = "org.example.cluster"
ENGINE = """
from pai_runtime.engine import Engine

class Cluster(Engine):
    def new_run(self, request):
        raise NotImplementedError
    def open_run(self, name):
        return 1 / 0
    def runs(self):
        return []

"""
OPENS = f"""{ENGINE}
@hookimpl
def pai_engine(profile):
    engine = Cluster()
    engine.cannot = {{"profile": profile.name, **profile.value.data}}
    return engine
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where distributions are found, in ``site``. The user has a profile for the engine ``cluster``."""
    find_plugins_in(tmp_path / "site", monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_profiles(tmp_path / "config", "  lab:\n    engine: cluster\n    queue: fast\n")
    return tmp_path


def _opened(name: str = "lab", policy: Path | None = None) -> Engine:
    return open_engine(name, Host(NO_POLICY, *([read_policy(policy)] if policy else [])))


def test_the_engine_is_given_the_profile_with_all_that_is_written_there(folder: Path) -> None:
    install_engine(folder, OPENS, "one-cluster")
    assert _opened().cannot == {"profile": "lab", "engine": "cluster", "queue": "fast"}


def _broken(folder: Path) -> None:
    install_engine(folder, "import no_such_module\n", "one-cluster")


def _twice(folder: Path) -> None:
    install_engine(folder, OPENS, "one-cluster")
    install_engine(folder, OPENS, "other-cluster", id_="org.example.other")


def _twice_by_one_id(folder: Path) -> None:
    install_engine(folder, OPENS, "one-cluster")
    install_engine(folder, OPENS, "other-cluster")


def _no_engine(folder: Path) -> None:
    install_engine(folder, "", "one-cluster")


def _raising(body: str) -> Callable[[Path], None]:
    return lambda folder: install_engine(
        folder, f"@hookimpl\ndef pai_engine(profile):\n    {body}\n", "one-cluster"
    )


def _none(folder: Path) -> None:
    (folder / "site").mkdir()


@pytest.mark.parametrize(
    ("install", "words"),
    [
        (_none, ["'cluster'", "not installed", "kubernetes"]),
        (_no_engine, [ID, "one-cluster 1.0", "pai_engine"]),
        (_broken, [ID, "one-cluster 1.0", "no_such_module"]),
        (_twice, ["'cluster'", "one-cluster, other-cluster"]),
        (_twice_by_one_id, [ID, "one-cluster 1.0", "other-cluster 1.0"]),
        (_raising("1 / 0"), [ID, "one-cluster 1.0", "hook pai_engine: ZeroDivisionError"]),
        (_raising("raise OSError"), [ID, "one-cluster 1.0", "hook pai_engine: OSError"]),
        (_raising("import sys; sys.exit(0)"), [ID, "one-cluster 1.0", "called sys.exit(0)"]),
        (_raising("return 3"), [ID, "one-cluster 1.0", "hook pai_engine", "int", "Engine"]),
    ],
)
def test_an_engine_that_cannot_be_had_is_told_where_it_is_named(
    folder: Path, install: Callable[[Path], None], words: list[str]
) -> None:
    install(folder)
    with pytest.raises(InvalidInput) as raised:
        _opened()
    (problem,) = raised.value.problems
    assert (problem.code, problem.field) == ("no-engine", "engines.lab.engine")
    assert problem.position is not None
    assert problem.position.line == 4
    assert all(word in problem.message for word in words)


def test_an_engine_that_the_policy_does_not_list_is_refused_before_it_is_imported(folder: Path) -> None:
    install_engine(folder, OPENS, "one-cluster")
    policy = folder / "policy.yaml"
    policy.write_text("policyVersion: 1\nplugins: []\n")
    with pytest.raises(InvalidInput) as raised:
        _opened(policy=policy)
    (problem,) = raised.value.problems
    assert problem.code == "no-engine"
    assert str(policy) in problem.message
    assert "one_cluster" not in sys.modules
    policy.write_text(
        f"policyVersion: 1\nplugins: [{{id: {ID}, distribution: one-cluster, versions: '*'}}]\n"
    )
    assert _opened(policy=policy).cannot


def test_of_two_engines_for_a_profile_the_one_that_is_allowed_opens_it(folder: Path) -> None:
    _twice(folder)
    policy = folder / "policy.yaml"
    allowed = {"id": "org.example.other", "distribution": "other-cluster", "versions": "*"}
    policy.write_text(json.dumps({"policyVersion": 1, "plugins": [allowed]}))
    assert _opened(policy=policy).cannot
    assert "one_cluster" not in sys.modules


def test_what_an_engine_prints_is_no_part_of_the_output(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = OPENS.replace("    engine = C", "    print('opened')\n    engine = C")
    install_engine(folder, f"print('imported')\n{code}")
    assert _opened().cannot
    assert capfd.readouterr() == ("", "imported\nopened\n")


def test_an_engine_says_itself_what_is_wrong_with_its_profile(folder: Path) -> None:
    body = "raise InvalidInput([profile.value.get('queue').problem('no-queue', 'no such queue')])"
    code = "from pai_document.problems import InvalidInput\n"
    install_engine(folder, f"{code}@hookimpl\ndef pai_engine(profile):\n    {body}\n")
    with pytest.raises(InvalidInput) as raised:
        _opened()
    assert [(each.code, each.field) for each in raised.value.problems] == [("no-queue", "engines.lab.queue")]


def test_an_engine_is_imported_only_when_a_profile_of_it_is_named(folder: Path) -> None:
    install_engine(folder, OPENS, "one-cluster")
    text = "  lab:\n    engine: cluster\n  other:\n    engine: no-such-engine\n"
    write_profiles(folder / "config", text)
    with pytest.raises(InvalidInput):
        _opened("other")
    assert "one_cluster" not in sys.modules
    _opened("lab")
    assert "one_cluster" in sys.modules


@pytest.mark.parametrize("command", ["run", "validate", "render"])
def test_a_command_reads_the_manifests_once_for_the_engine_and_for_the_job(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    install_engine(folder, OPENS, "one-cluster")
    path, read = write_job(folder, job()), []

    class Read(InstalledPlugins):
        def __init__(self, *, manifests: bool) -> None:
            read.append(manifests)
            super().__init__(manifests=manifests)

    monkeypatch.setattr("pai_runtime.host.host.InstalledPlugins", Read)
    Command(capfd)(command, str(path), "--on", "lab")
    assert read.count(True) == 1


FAULTY: dict[str, str] = {
    "raise ValueError('a bug')": "ValueError: a bug",
    "import sys; sys.exit(0)": "called sys.exit(0)",
    "raise OSError('disk')": "OSError: disk",
    "return None": "None is not of the type",
    "return 'a text'": "str is not of the type",
}


@pytest.mark.parametrize("body", FAULTY)
@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("open_run(self, name)", ["stop", "demo"]),
        ("open_run(self, name)", ["rm", "demo"]),
        ("runs(self)", ["ps"]),
        ("new_run(self, request)", ["run", "job.yaml"]),
        ("new_run(self, request)", ["validate", "job.yaml"]),
    ],
)
def test_a_fault_of_an_engine_is_blamed_on_it_whatever_the_command(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    method: str,
    args: list[str],
    body: str,
) -> None:
    write_job(folder, job())
    monkeypatch.chdir(folder)
    own = f"    def {method}:\n        {body}\n"
    install_engine(folder, OPENS.replace("        return []\n", f"        return []\n{own}"), "one-cluster")
    status, output, messages = Command(capfd)(*args, "--on", "lab")
    assert (status, output) == (2, "")
    assert f"plugin {ID} (one-cluster 1.0), Engine." in messages
    assert FAULTY[body] in messages
    assert "Traceback" not in messages


READER = """
from pai_runtime.engine import NewRun, Placement, Run, RunReader, RunTask

class Reader(RunReader):
    named = "demo"
    on = "lab"
    def run(self):
        task = RunTask("worker", 0, "running", None, 0, 1.0, None)
        return Run("demo", "cluster", "job.yaml", 1.0, 0, (task,))
    def _fault(self, *_, **__):
        BODY
    progress = exit_record = log = variables = cancel = remove = exec = files = services = _fault
"""


@pytest.mark.parametrize(
    ("args", "method"),
    [
        (["ps", "demo"], "progress"),
        (["logs", "demo"], "log"),
        (["variables", "demo", "worker/0"], "variables"),
        (["stop", "demo"], "cancel"),
        (["rm", "demo"], "remove"),
        (["exec", "demo", "worker/0"], "exec"),
        (["cp", "demo", "worker/0:a", "copy"], "files"),
        (["open", "demo", "board"], "services"),
    ],
)
@pytest.mark.parametrize("body", ["raise KeyError('pods')", "return b'bytes'"])
def test_a_fault_of_a_run_is_blamed_on_its_engine(
    folder: Path, capfd: pytest.CaptureFixture[str], args: list[str], method: str, body: str
) -> None:
    code = READER.replace("BODY", body) + OPENS.replace("return 1 / 0", "return Reader()")
    install_engine(folder, code, "one-cluster")
    status, _, messages = Command(capfd)(*args, "--on", "lab")
    assert status == 2
    assert f"plugin {ID} (one-cluster 1.0), RunReader.{method}: " in messages
    assert "Traceback" not in messages


def test_an_engine_changes_a_request_as_a_dataclass_on_every_python() -> None:
    """Python before 3.12 refuses defaults that it takes for mutable, once somebody asks for the fields."""
    assert dataclasses.replace(RunRequest("somebody"), timeout=1.0).timeout == 1.0
