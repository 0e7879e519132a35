"""`pai-runtime lock`: it pins what a job refers to, and with its file no other bytes are used."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from errno import EROFS
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_definitions.lock import read_lock
from pai_runtime import cli as command_line
from pai_task import atomic_write
from tests.fault_server import FaultServer, Reply, Request
from tests.init_harness import PodFolder, api_server, framework, framework_variables, pod_job
from tests.support import cli, job, write_job

LOCK = Path("job.yaml.lock")


def script(name: str, command: str = "true", **fields: Any) -> str:
    """A definition that runs a command before the task."""
    parameters = {"callbacks": [{"event": "taskStarts", "commands": [command]}]}
    definition = {"name": name, "type": "script", "plugin": "cmd", "plugin_params": parameters, **fields}
    return yaml.safe_dump(definition, sort_keys=False)


class Pages(FaultServer):
    """A server with definition files at paths."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        super().__init__(Reply(404))
        self.pages = dict(pages)

    def next_reply(self, request: Request) -> Reply:
        super().next_reply(request)
        page = self.pages.get(request.path)
        return Reply(404) if page is None else Reply(body=page.encode())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    """Somebody with a folder of definitions as a source, and a server where others are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("PAI_RUNTIME_POLICY", raising=False)
    Path("config/pai-runtime").mkdir(parents=True)
    sources = {"sources": [{"name": "team", "folder": str(tmp_path / "team")}]}
    Path("config/pai-runtime/marketplace.yaml").write_text(yaml.safe_dump(sources))
    Path("team").mkdir()
    Path("team/greet.yaml").write_text(script("greet", require=["common", "only"]))
    Path("team/common.yaml").write_text(script("common"))
    Path("team/only.yaml").write_text(script("only"))
    Path("own.yaml").write_text(script("own"))
    pages = {"/a.yaml": script("a", require=["more/b.yaml"]), "/more/b.yaml": script("b", "echo b")}
    with Pages(pages) as server:
        yield server


class Ran:
    """What a command has printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *args: str) -> None:
        if args[0] == "run":  # it makes a process what it should not be in tests
            done = cli(*args)
            self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["pai-runtime", *args])
            self.status = command_line.main()
        self.out, self.err = capsys.readouterr()

    @property
    def changes(self) -> list[tuple[str, str]]:
        """What `lock` says that it did, and to what."""
        lines = (line.split(" ") for line in self.out.splitlines()[:-1])
        return [(verb, reference.rstrip(":")) for verb, reference, *_ in lines]


def requires(*references: str, **fields: Any) -> None:
    """Write a job that requires these."""
    write_job(Path(), job(worker={"prerequisites": list(references)}, **fields))


def codes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `validate` finds."""
    found = json.loads(Ran(capsys, "validate", "job.yaml", "--json").out)
    return [problem["code"] for problem in found["problems"]]


def locked() -> dict[str, str]:
    """The digests in the lock file."""
    return {reference: pin.digest for (reference, _), pin in read_lock(LOCK).pins.items()}


def test_it_pins_what_can_change_without_the_job(server: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{server.url}/a.yaml"
    requires("own.yaml", url, "marketplace://name/greet", "marketplace://name/debug_hook")
    done = Ran(capsys, "lock", "job.yaml")
    assert (done.status, done.err) == (0, "")
    greet = [f"marketplace://name/{name}" for name in ("common", "debug_hook", "greet", "only")]
    assert done.changes == [("added", reference) for reference in sorted([url, *greet, "more/b.yaml"])]
    pins = read_lock(LOCK).pins
    assert {reference for reference, _ in pins} == {url, *greet, "more/b.yaml"}
    assert pins["more/b.yaml", url].origin == f"{server.url}/more/b.yaml"
    assert pins[greet[2], ""].origin == "source:greet.yaml"
    assert not {pin.location for pin in pins.values()} - {""}
    before = LOCK.read_bytes()
    again = Ran(capsys, "lock", "job.yaml")
    assert (again.status, again.changes, LOCK.read_bytes()) == (0, [], before)


def test_a_job_that_requires_nothing_gets_no_lock_file(
    server: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    del server
    requires()
    assert Ran(capsys, "lock", "job.yaml").status == 0
    assert not LOCK.exists()


def test_a_job_that_is_not_sound_is_not_locked(server: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    requires(f"{server.url}/a.yaml", f"{server.url}/missing.yaml")
    assert Ran(capsys, "lock", "job.yaml").status == 1
    assert not LOCK.exists()


@pytest.mark.process
def test_a_locked_job_runs_without_a_network(server: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    requires(f"{server.url}/a.yaml")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    server.pages, asked = {}, len(server.requests)
    for command in ("validate", "plan", "lock"):
        done = Ran(capsys, command, "job.yaml")
        assert (done.status, done.err) == (0, "")
    assert len(server.requests) == asked


@pytest.mark.process
@pytest.mark.parametrize("command", ["validate", "plan", "run", "lock"])
def test_a_definition_that_was_tampered_with_is_refused(
    server: Pages, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    requires(f"{server.url}/a.yaml", "marketplace://name/greet")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    server.pages["/more/b.yaml"] = script("b", "echo evil")
    Path("team/only.yaml").write_text(script("only", "echo evil"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("elsewhere").absolute()))
    before = LOCK.read_bytes()
    done = Ran(capsys, command, "job.yaml")
    assert done.status != 0
    assert f"sha256:{locked()['more/b.yaml']}" in done.err
    assert "pai-runtime lock job.yaml --update b" in done.err
    assert codes(capsys) == ["wrong-digest"]
    assert LOCK.read_bytes() == before
    assert not Path(".pai-runs").exists()


def sources(*entries: tuple[str, str]) -> None:
    """Give the user these folders as sources, by their names."""
    written = {
        "sources": [{"name": name, "folder": str(Path(folder).absolute())} for name, folder in entries]
    }
    Path("config/pai-runtime/marketplace.yaml").write_text(yaml.safe_dump(written))


def without_name(lock: str) -> str:
    """A lock file as an earlier version wrote it: with the name of the source, and without its files."""
    document = yaml.safe_load(lock)
    text = yaml.safe_dump({key: document[key] for key in ("lockVersion", "definitions")}, sort_keys=False)
    return text.replace(" source:", " team:")


OTHERS = {
    "another name": [("ours", "team")],
    "another name, and a folder with the same paths": [("mine", "mine"), ("ours", "team")],
    "no source": [],
    "a source that has changed": [("team", "mine")],
}


@pytest.mark.process
@pytest.mark.parametrize(
    ("others", "as_before"), [(each, False) for each in OTHERS] + [(each, True) for each in [*OTHERS][:2]]
)
def test_a_lock_file_holds_for_a_colleague(
    server: Pages, capsys: pytest.CaptureFixture[str], others: str, *, as_before: bool
) -> None:
    del server
    Path("team/greet.yaml").write_text(script("greet", require=["common.yaml", "only"]))
    Path("mine").mkdir()
    for name in ("greet", "common", "only"):
        Path(f"mine/{name}.yaml").write_text(script(name, "echo mine"))
    requires("marketplace://name/greet")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    pinned = locked()
    if as_before:
        LOCK.write_text(without_name(LOCK.read_text()))
    sources(*OTHERS[others])
    before = LOCK.read_bytes()
    planned = Ran(capsys, "plan", "job.yaml", "--full")
    assert (planned.status, planned.err) == (0, "")
    assert "mine" not in planned.out.replace(str(Path.cwd()), "")
    assert LOCK.read_bytes() == before
    again = Ran(capsys, "lock", "job.yaml")
    assert (again.status, again.changes, locked()) == (0, [], pinned)


def test_two_people_with_the_same_definitions_write_the_same_lock_file(
    server: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    del server
    requires("marketplace://name/greet")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    before = LOCK.read_bytes()
    LOCK.unlink()
    sources(("ours", "team"))
    assert Ran(capsys, "lock", "job.yaml").status == 0
    assert LOCK.read_bytes() == before


def test_a_lock_file_without_bytes_says_who_has_to_add_them(
    server: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    del server
    requires("marketplace://name/only")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    carrying = LOCK.read_bytes()
    LOCK.write_text(without_name(LOCK.read_text()))
    sources()
    assert codes(capsys) == ["no-such-definition"]
    assert "pai-runtime lock job.yaml" in Ran(capsys, "validate", "job.yaml").err
    sources(("team", "team"))
    assert Ran(capsys, "lock", "job.yaml").status == 0
    assert LOCK.read_bytes() == carrying


@pytest.mark.process
def test_a_policy_takes_what_a_lock_file_carries_for_what_it_is(
    server: Pages, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del server
    requires("marketplace://name/only")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    plugins = {"cmd": "pai-cmd", "definitions": "pai-definitions"}
    policy = {
        "policyVersion": 1,
        "plugins": [
            {"id": f"com.microsoft.pai.runtimeplugin.{name}", "distribution": distribution, "versions": "*"}
            for name, distribution in plugins.items()
        ],
        "definitions": {"sources": [str(tmp_path / "team")]},
    }
    Path("policy.yaml").write_text(yaml.safe_dump(policy))
    allowed = ("validate", "job.yaml", "--policy", "policy.yaml")
    assert Ran(capsys, *allowed).status == 0
    Path("team/only.yaml").write_text(script("only", "echo changed"))
    assert Ran(capsys, *allowed).status == 1
    assert Ran(capsys, "validate", "job.yaml").status == 0
    policy["definitions"] = {"sources": [str(tmp_path)]}
    Path("policy.yaml").write_text(yaml.safe_dump(policy))
    assert Ran(capsys, *allowed).status == 0


def test_paths_that_a_lock_file_could_not_tell_apart_are_refused(
    server: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    del server
    for folder in ("team", "mine"):
        Path(folder).mkdir(exist_ok=True)
        Path(folder, "a.yaml").write_text(script(f"a_{folder}", require=["b.yaml"]))
        Path(folder, "b.yaml").write_text(script("b", f"echo {folder}"))
    sources(("team", "team"), ("mine", "mine"))
    requires("marketplace://name/a_team", "marketplace://name/a_mine")
    assert codes(capsys) == ["ambiguous-definition"]


@pytest.mark.process
def test_what_is_not_locked_is_refused_until_it_is_added(
    server: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    requires("marketplace://name/only")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    requires(f"{server.url}/a.yaml", "own.yaml")
    assert codes(capsys) == ["not-locked"]
    assert not server.requests
    added = [
        ("added", f"{server.url}/a.yaml"),
        ("removed", "marketplace://name/only"),
        ("added", "more/b.yaml"),
    ]
    assert Ran(capsys, "lock", "job.yaml").changes == added
    assert codes(capsys) == []


UPDATES = [
    (["greet"], {"greet", "only"}),
    (["marketplace://name/greet"], {"greet", "only"}),
    (["team:greet.yaml"], {"greet", "only"}),
    (["source:greet.yaml"], {"greet", "only"}),
    (["only"], {"only"}),
    (["common", "greet"], {"common", "greet", "only"}),
]


@pytest.mark.parametrize(("names", "updated"), UPDATES)
def test_an_update_is_of_what_it_names_and_of_what_only_that_requires(
    server: Pages, capsys: pytest.CaptureFixture[str], names: Sequence[str], updated: set[str]
) -> None:
    requires("marketplace://name/greet", "marketplace://name/common", f"{server.url}/a.yaml")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    for path in Path("team").iterdir():
        if path.stem in updated:
            path.write_text(f"{path.read_text()}title: changed\n")
    server.pages = {}
    options = [f"--update={name}" for name in names]
    done = Ran(capsys, "lock", "job.yaml", *options)
    assert (done.status, done.err) == (0, "")
    assert done.changes == [("updated", f"marketplace://name/{name}") for name in sorted(updated)]


def test_an_update_of_what_is_not_locked_is_refused(
    server: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    del server
    requires("marketplace://name/greet")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    before = LOCK.read_bytes()
    done = Ran(capsys, "lock", "job.yaml", "--update", "gret")
    assert done.status == 1
    assert "did you mean greet?" in done.err
    assert LOCK.read_bytes() == before


@pytest.mark.process
@pytest.mark.parametrize("make", [lambda: LOCK.write_text("[]"), LOCK.mkdir, lambda: os.mkfifo(LOCK)])
def test_a_lock_file_that_is_none_is_an_error(
    server: Pages, capsys: pytest.CaptureFixture[str], make: Any
) -> None:
    del server
    requires("marketplace://name/greet")
    make()
    for command in ("validate", "plan", "run", "lock"):
        done = Ran(capsys, command, "job.yaml")
        assert done.status != 0
        assert "job.yaml.lock" in done.err
    assert LOCK.exists()


def test_what_cannot_be_written_leaves_the_old_one(
    server: Pages, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requires("marketplace://name/greet")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    before = LOCK.read_bytes()
    requires(f"{server.url}/a.yaml")

    def read_only(*_: Any, **__: Any) -> None:
        raise OSError(EROFS, os.strerror(EROFS))

    monkeypatch.setattr(atomic_write, "write", read_only)
    done = Ran(capsys, "lock", "job.yaml")
    assert done.status == 2
    assert os.strerror(EROFS) in done.err
    assert LOCK.read_bytes() == before


KILLED = """
import os, signal, sys
import pai_runtime.cli
os.rename = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
sys.argv[1:] = ["lock", "job.yaml"]
pai_runtime.cli.main()
"""


@pytest.mark.process
def test_a_kill_leaves_the_old_one(server: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    del server
    requires("marketplace://name/greet")
    assert Ran(capsys, "lock", "job.yaml").status == 0
    before = LOCK.read_bytes()
    requires("marketplace://name/only")
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert LOCK.read_bytes() == before
    assert Ran(capsys, "lock", "job.yaml").status == 0
    assert locked().keys() == {"marketplace://name/only"}


def test_nothing_but_a_file_is_overwritten(server: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    del server
    requires("marketplace://name/only")
    done = Ran(capsys, "lock", "job.yaml", "--with-content", "team")
    assert done.status == 2
    assert Path("team/only.yaml").exists()


@pytest.mark.process
def test_a_run_keeps_the_bytes_of_all_that_it_used(server: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    greet = {"name": "marketplace://name/greet", "template_variables": {"word": "<% $secrets.word %>"}}
    Path("team/greet.yaml").write_text(script("greet", "echo {{ word }}", template_variables=["word"]))
    own = {"name": "mine", "type": "script", "require": [greet, "own.yaml", f"{server.url}/a.yaml"]}
    worker = {"prerequisites": ["mine"]}
    write_job(Path(), job(prerequisites=[own], secrets={"word": "hidden-value"}, worker=worker))
    assert Ran(capsys, "lock", "job.yaml", "--with-content", "all.lock").status == 0
    done = Ran(capsys, "run", "job.yaml", "--out", "run")
    assert done.status == 0, done.err
    kept = Path("run/definitions.lock").read_text()
    assert kept == Path("all.lock").read_text()
    assert "hidden-value" not in kept
    lock = read_lock(Path("run/definitions.lock"))
    assert {pin.name for pin in lock.pins.values()} == {"greet", "own", "a", "b"}
    assert lock.contents.keys() == {pin.digest for pin in lock.pins.values()}


def test_bytes_in_the_lock_file_of_a_job_are_not_believed(
    server: Pages, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requires(f"{server.url}/a.yaml")
    server.pages["/more/b.yaml"] = script("b", "echo evil")
    assert Ran(capsys, "lock", "job.yaml", "--with-content", "evil.lock").status == 0
    LOCK.write_bytes(Path("evil.lock").read_bytes())
    server.pages["/more/b.yaml"] = script("b", "echo b")
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("elsewhere").absolute()))
    assert codes(capsys) == ["wrong-digest"]


@pytest.mark.process
def test_a_run_without_definitions_keeps_none(server: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    del server
    requires()
    assert Ran(capsys, "run", "job.yaml", "--out", "run").status == 0
    assert not Path("run/definitions.lock").exists()


@pytest.mark.process
def test_a_pod_uses_the_bytes_that_it_was_given(
    server: Pages, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    worker = {"prerequisites": [f"{server.url}/a.yaml", "own.yaml", "marketplace://name/greet"]}
    given = pod_job(worker=worker)
    write_job(Path(), given)
    assert Ran(capsys, "lock", "job.yaml", "--with-content", "definitions.lock").status == 0
    asked = len(server.requests)
    pod = PodFolder(tmp_path / "pod", **framework_variables("worker"))
    pod.mount("config/definitions.lock", Path("definitions.lock").read_text())
    assert init(pod, given) == 0, pod.log
    assert {use["name"] for use in pod.plan["uses"]} >= {"a", "b", "own", "greet", "common", "only"}
    assert len(server.requests) == asked


@pytest.mark.process
def test_a_pod_asks_no_network(server: Pages, tmp_path: Path) -> None:
    pod = PodFolder(tmp_path / "pod", **framework_variables("worker"))
    assert init(pod, pod_job(worker={"prerequisites": [f"{server.url}/a.yaml"]})) == 1
    assert f"{server.url}/a.yaml" in pod.log
    assert not server.requests


def init(pod: PodFolder, given: Mapping[str, Any]) -> int:
    """The exit code of the init container of a pod of this job."""
    with api_server(framework(given)) as url:
        return pod.init(KUBE_APISERVER_ADDRESS=url).returncode
