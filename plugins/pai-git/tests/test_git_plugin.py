"""The plugin com.microsoft.pai.runtimeplugin.git against real git and a real server that misbehaves."""

import base64
import errno
import itertools
import os
import secrets
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_git import cloning, pai_init, pai_task_starts
from pai_git.cloning import SETTINGS, CloneFailed, clone
from pai_git.placing import PlaceTaken, place
from pai_git.request import read_request
from pai_plugin_kit import conformance
from pai_runtime.host.host import Host
from pai_runtime.host.planning import contribution_of
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.plugin import Task, Use, UserError
from pai_task.placeholders import placeholder
from tests.git_server import (
    Clock,
    Fault,
    GitServer,
    Request,
    SshServer,
    git,
    git_daemon,
    make_repository,
    ssh_server,
)
from tests.job_harness import parameter_problems
from tests.support import PROGRAM, cli, content, job, write_job

ID = "com.microsoft.pai.runtimeplugin.git"
test_it_keeps_the_rules_for_plugins = pytest.mark.process(conformance(ID))
TOKEN = "a-token-nobody-knows"


@pytest.fixture(autouse=True)
def nobodys_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repositories")
    make_repository(root / "code")
    return root


@pytest.fixture
def server(repositories: Path) -> Iterator[GitServer]:
    with GitServer(repositories) as server:
        yield server


@pytest.fixture
def task(tmp_path: Path) -> Task:
    folder = tmp_path / "task"
    folder.mkdir()
    return Task("job", "worker", 0, {"worker": 1}, {}, folder)


def use(uri: str, **parameters: Any) -> Use:
    return Use(ID, "code", {"repo_uri": uri, **parameters}, "fail", "job.yaml:1:1")


def cloned(
    folder: Path,
    uri: str,
    clock: Clock | None = None,
    token: str | None = None,
    budget: float = 600,
    **parameters: Any,
) -> Path:
    """A clone below `folder`, without the hooks around it, and without waiting."""
    if token:
        parameters["token"] = token
    clone(read_request({"repo_uri": uri, **parameters}), token, folder, (clock or Clock()).retries(budget))
    return folder / "clone"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


# --- parameters


@pytest.mark.parametrize(
    ("clone_dir", "environment", "script"),
    [
        (None, {"PAI_GIT_DIR": "/task/code"}, ""),
        ("/workspace/a b", {"PAI_GIT_DIR": "/workspace/a b"}, ""),
        ("src/a b", {}, "export PAI_GIT_DIR=\"$PAI_WORK_DIR\"/'src/a b'"),
    ],
)
def test_a_variable_says_where_the_clone_is(
    clone_dir: str | None, environment: dict[str, str], script: str
) -> None:
    host = Host(NO_POLICY)
    task = Task("job", "worker", 0, {"worker": 1}, {}, Path("/task"))
    more = {"clone_dir": clone_dir} if clone_dir else {}
    contribution = contribution_of(host.load(host.find(ID)), use("https://git.example/a", **more), task)
    assert contribution.environment == environment
    assert "".join(step.script for step in contribution.steps) == script


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "missing field 'repo_uri'"),
        ({"repo_uri": ""}, "expected the URL of a git repository"),
        ({"repo_uri": "u", "option": []}, "did you mean options?"),
        ({"repo_uri": "u", "options": "--depth 1"}, "expected a list"),
        ({"repo_uri": "u", "options": [1]}, "expected options of git clone"),
        ({"repo_uri": "u", "clone_dir": "~/code"}, "expected a directory, absolute or below"),
        ({"repo_uri": "u", "clone_dir": "$HOME/code"}, "expected a directory, absolute or below"),
        ({"repo_uri": "u", "clone_dir": "a/../../b"}, "expected a directory, absolute or below"),
        ({"repo_uri": "u", "clone_dir": ".."}, "expected a directory, absolute or below"),
        ({"repo_uri": "u", "ref": "--upload-pack=evil"}, "expected a branch, a tag or the full id"),
        ({"repo_uri": "u", "depth": 0}, "at least 1"),
        ({"repo_uri": "u", "submodules": "yes"}, "expected true or false"),
        ({"repo_uri": "u", "token": "ghp_in-the-job-file"}, "expected a secret, <% $secrets.name %>"),
        ({"repo_uri": "u", "depth": 2**31}, "at most 2147483647"),
        ({"repo_uri": "u", "retry_minutes": -1}, "at least 0"),
        ({"repo_uri": "u", "retry_minutes": 1e300}, "at most 1000000"),
    ],
)
def test_a_mistake_in_the_parameters_is_said_before_anything_is_imported(
    parameters: dict[str, Any], words: str
) -> None:
    problems = parameter_problems(ID, parameters)
    assert any(words in str(problem) for problem in problems), problems


def test_a_token_that_is_a_secret_is_no_mistake() -> None:
    parameters = {"repo_uri": "https://git.example/a", "token": placeholder("git")}
    assert not parameter_problems(ID, parameters)
    read_request(parameters)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"repo_uri": "https://me:pass@git.example/a"}, "repo_uri contains a password"),
        ({"repo_uri": "https://git.example/a?key=value"}, "repo_uri contains a query"),
        ({"repo_uri": f"https://{placeholder('t')}@git.example/a"}, "repo_uri contains a secret"),
        ({"repo_uri": "u", "options": [f"-b {placeholder('t')}"]}, "options contains a secret"),
        ({"repo_uri": "u", "clone_dir": placeholder("t")}, "clone_dir contains a secret"),
        ({"repo_uri": "git@git.example:a", "token": "t"}, "token is for repositories at https://"),
        ({"repo_uri": "https://[half/a"}, "repo_uri is not a URL"),
        ({"repo_uri": "u", "options": ["--branch 'half"]}, "options are not a valid command line"),
        ({"repo_uri": "u", "options": ["--branch"]}, "the option '--branch' needs a value"),
        *(
            ({"repo_uri": "u", "options": [option]}, f"the option '{option.split('=')[0].split()[0]}' is not")
            for option in (
                "--upload-pack=/evil",
                "--upload-pack /evil",
                "--upload=/evil",
                "-u/evil",
                "-qu/evil",
                "-u /evil",
                "-c core.sshCommand=/evil",
                "-ccore.sshCommand=/evil",
                "--config=core.sshCommand=/evil",
                "--conf core.sshCommand=/evil",
                "--template=/evil",
                "--separate-git-dir=/etc",
                "--reference=/else",
                "--shared",
                "--",
                "--quiet=/evil",
                "https://another.example",
            )
        ),
    ],
)
def test_what_would_leak_a_secret_or_run_a_program_is_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        read_request(parameters)
    assert words in str(refused.value)
    assert "pass@" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--depth", "1", "--branch", "dev"], ("--depth", "1", "--branch", "dev")),
        (["--depth 1 --branch dev"], ("--depth", "1", "--branch", "dev")),
        (["--depth=1", "-b dev"], ("--depth=1", "-b", "dev")),
        (["-bdev", "-j4"], ("-bdev", "-j4")),
        (["--branch 'a b'"], ("--branch", "a b")),
        (
            ["--recurse-submodules=lib", "--recursive", "-q"],
            ("--recurse-submodules=lib", "--recursive", "-q"),
        ),
        ([], ()),
    ],
)
def test_options_may_be_written_as_on_a_command_line(options: list[str], words: tuple[str, ...]) -> None:
    assert read_request({"repo_uri": "u", "options": options}).options == words


# --- what is cloned


@pytest.mark.process
def test_a_clone_is_complete(server: GitServer, task: Task) -> None:
    pai_init(use(f"{server.url}/code"), task)
    code = task.folder / "code"
    assert names(task.folder) == {"code"}
    assert names(code) == {".git", ".hidden", "link", "run.sh", "version"}
    assert os.access(code / "run.sh", os.X_OK)
    assert (code / "link").readlink() == Path("run.sh")
    assert git(code, "status", "--porcelain") == ""
    assert git(code, "rev-list", "--count", "main") == "3"
    assert git(code, "config", "remote.origin.url") == f"{server.url}/code"


@pytest.mark.process
@pytest.mark.parametrize(
    ("parameters", "version", "branch", "commits"),
    [
        ({}, "3", "main", 3),
        ({"ref": "dev"}, "2", "dev", 2),
        ({"ref": "v1"}, "1", "", 1),
        ({"ref": 1}, "2", "", 2),
        ({"ref": 1, "depth": 1}, "2", "", 1),
        ({"ref": 0, "depth": 2}, "1", "", 1),
        ({"depth": 2}, "3", "main", 2),
        ({"ref": "dev", "depth": 1}, "2", "dev", 1),
        ({"options": ["-b dev", "--depth", "1"]}, "2", "dev", 1),
        ({"options": ["--origin upstream"], "ref": 0, "depth": 1}, "1", "", 1),
    ],
)
def test_what_is_checked_out_is_what_was_asked_for(
    server: GitServer,
    tmp_path: Path,
    parameters: dict[str, Any],
    version: str,
    branch: str,
    commits: int,
) -> None:
    if isinstance(parameters.get("ref"), int):
        commit = git(server.root / "code", "rev-parse", f"main~{2 - parameters['ref']}")
        parameters = {**parameters, "ref": commit}
    code = cloned(tmp_path, f"{server.url}/code", **parameters)
    assert (code / "version").read_text() == f"{version}\n"
    assert git(code, "branch", "--show-current") == branch
    assert git(code, "rev-list", "--count", "HEAD") == str(commits)


@pytest.mark.process
@pytest.mark.parametrize("parameters", [{}, {"depth": 1}, {"options": ["--recurse-submodules"]}])
def test_submodules_come_along_if_asked_for(
    server: GitServer, repositories: Path, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    outer = repositories / f"outer-{tmp_path.name}"
    make_repository(outer, commits=1)
    git(outer, "submodule", "--quiet", "add", f"{server.url}/code", "inner")
    git(outer, "commit", "--quiet", "--message", "Add inner")
    (tmp_path / "without").mkdir()
    assert not list((cloned(tmp_path / "without", f"{server.url}/{outer.name}") / "inner").iterdir())
    (tmp_path / "with").mkdir()
    if "options" not in parameters:
        parameters = {**parameters, "submodules": True}
    code = cloned(tmp_path / "with", f"{server.url}/{outer.name}", **parameters)
    assert (code / "inner" / "version").read_text() == "3\n"


@pytest.mark.process
def test_a_repository_cannot_lead_to_programs_nor_to_files_of_the_machine(
    server: GitServer, repositories: Path, tmp_path: Path
) -> None:
    with pytest.raises(CloneFailed, match="transport 'ext' not allowed"):
        cloned(tmp_path, "ext::sh -c touch% evil")
    outer = repositories / "leads-to-files"
    make_repository(outer, commits=1)
    git(outer, "submodule", "--quiet", "add", str(repositories / "code"), "inner")
    git(outer, "commit", "--quiet", "--message", "Add inner")
    with pytest.raises(CloneFailed, match="transport 'file' not allowed"):
        cloned(tmp_path, f"{server.url}/{outer.name}", submodules=True)


@pytest.mark.process
def test_a_repository_may_be_a_folder(repositories: Path, tmp_path: Path) -> None:
    assert (cloned(tmp_path, str(repositories / "code")) / "version").exists()


@pytest.mark.process
@pytest.mark.parametrize("part", [None, 30])
def test_a_clone_of_nothing_is_not_taken_for_a_clone(
    server: GitServer, tmp_path: Path, part: int | None
) -> None:
    if part is None:
        git(server.root, "init", "--quiet", tmp_path.name)
    else:
        server.faults = [Fault(part=part)]
    with pytest.raises(CloneFailed, match="has no commit, or its server closed the connection"):
        cloned(tmp_path, f"{server.url}/{tmp_path.name if part is None else 'code'}")


# --- where it is


@pytest.mark.process
@pytest.mark.parametrize("clone_dir", [None, "deep/er/code", "/"])
def test_a_second_run_of_the_same_asks_nobody_and_changes_nothing(
    server: GitServer,
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clone_dir: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    if clone_dir == "/":
        clone_dir = str(tmp_path / "elsewhere" / "code")
    the_use = use(f"{server.url}/code", **({"clone_dir": clone_dir} if clone_dir else {}))
    folder = tmp_path / clone_dir if clone_dir else task.folder / "code"
    for _ in range(2):
        pai_init(the_use, task)
        pai_task_starts(the_use, task)
        assert (folder / "version").read_text() in ("3\n", "mine")
        (folder / "version").write_text("mine")
        assert not list(task.folder.glob(".*"))
    assert (folder / "version").read_text() == "mine"
    assert git(folder, "status", "--porcelain") == "M version"
    if clone_dir is None:
        asked = len(server.requests)
        pai_init(the_use, task)
        assert len(server.requests) == asked


def make_full(folder: Path) -> None:
    folder.mkdir()
    (folder / "file").touch()


def make_working_directory(folder: Path) -> None:
    folder.mkdir()
    os.chdir(folder)


@pytest.mark.process
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (make_full, "is not empty"),
        (lambda folder: folder.touch(), "is not a directory"),
        (lambda folder: folder.symlink_to("/"), "is not a directory"),
        (make_working_directory, "is the task's working directory"),
        (make_repository, "is not empty"),
    ],
)
def test_a_place_that_is_taken_is_an_error_and_stays_as_it_is(
    server: GitServer,
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Path], object],
    words: str,
    *,
    given: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "place" if given else task.folder / "code"
    prepare(folder)
    before = names(folder)
    the_use = use(f"{server.url}/code", **({"clone_dir": str(folder)} if given else {}))

    def both() -> None:
        pai_init(the_use, task)
        pai_task_starts(the_use, task)

    with pytest.raises(PlaceTaken, match=words):
        both()
    assert names(folder) == before
    assert given or not server.requests


@pytest.mark.process
def test_a_clone_of_something_else_is_not_taken_for_the_same(server: GitServer, task: Task) -> None:
    pai_init(use(f"{server.url}/code"), task)
    pai_init(use(f"{server.url}/code", retry_minutes=1), task)
    with pytest.raises(PlaceTaken, match="holds no clone of this repository"):
        pai_init(use(f"{server.url}/code", ref="dev"), task)


@pytest.mark.process
def test_an_empty_folder_is_replaced(server: GitServer, task: Task) -> None:
    (task.folder / "code").mkdir()
    pai_init(use(f"{server.url}/code"), task)
    assert (task.folder / "code" / "version").exists()


@pytest.mark.process
def test_a_clone_gets_to_another_file_system_whole(
    server: GitServer, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    the_use = use(f"{server.url}/code", clone_dir=str(tmp_path / "else" / "code"))
    pai_init(the_use, task)
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path.parent == task.folder:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        assert (path / "version").exists()
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    pai_task_starts(the_use, task)
    code = tmp_path / "else" / "code"
    assert git(code, "status", "--porcelain") == ""
    assert (code / "link").is_symlink()
    assert names(tmp_path / "else") == {"code"}
    assert names(task.folder) == set()


@pytest.mark.process
def test_of_many_tasks_with_one_place_one_sets_its_clone_there(server: GitServer, tmp_path: Path) -> None:
    code = cloned(tmp_path, f"{server.url}/code")
    copies = [tmp_path / f"copy{number}" for number in range(8)]
    for copy in copies:
        git(tmp_path, "clone", "--quiet", str(code), str(copy))
    with ThreadPoolExecutor(8) as pool:
        placed = list(pool.map(lambda copy: place(copy, tmp_path / "place", "same"), copies))
    assert sum(placed) == 1
    assert (tmp_path / "place" / "version").exists()
    assert not [copy for copy in copies if copy.exists()]


@pytest.mark.process
def test_what_a_killed_run_has_left_is_in_nobodys_way(server: GitServer, task: Task) -> None:
    server.faults = [Fault(404)]
    with pytest.raises(CloneFailed):
        pai_init(use(f"{server.url}/code"), task)
    assert names(task.folder) == set()
    left: list[Path] = []

    def kill(_: Request) -> None:
        left.extend(task.folder.glob(".git-clone-*"))

    server.seen = kill
    pai_init(use(f"{server.url}/code"), task)
    (scratch,) = set(left)
    (scratch / "clone").mkdir(parents=True)
    (scratch / "clone" / "half").touch()
    git(task.folder, "-C", str(task.folder / "code"), "config", "was.here", "yes")
    (task.folder / "code").rename(task.folder / "old")
    pai_init(use(f"{server.url}/code"), task)
    assert not (task.folder / "code" / "half").exists()
    assert not scratch.exists()


# --- trying again

PASSING = {
    "429": Fault(429),
    "500": Fault(500),
    "502": Fault(502),
    "503": Fault(503),
    "504": Fault(504),
    "408": Fault(408),
    "cut before the answer": Fault(),
    "cut in the body": Fault(part=260),
}


@pytest.mark.process
@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_again(server: GitServer, tmp_path: Path, fault: Fault, when: str) -> None:
    clock = Clock()
    if when == "first":
        server.faults = [fault, fault]
    else:
        at = iter([False, True])  # in the place of the third answer
        server.seen = lambda _: server.faults.append(fault) if next(at, False) else None
    code = cloned(tmp_path, f"{server.url}/code", clock)
    assert (code / "version").read_text() == "3\n"
    assert len(clock.pauses) == (2 if when == "first" else 1)


@pytest.mark.process
def test_a_name_that_cannot_be_resolved_and_a_port_that_nobody_listens_at_are_tried_again(
    tmp_path: Path, repositories: Path
) -> None:
    with GitServer(repositories) as gone:
        closed = gone.url
    for url in (f"{closed}/code", "http://no-such-host.invalid/code"):
        clock = Clock()
        with pytest.raises(CloneFailed):
            cloned(tmp_path, url, clock)
        assert len(clock.pauses) > 5
        assert sum(clock.pauses) < 601


@pytest.mark.process
def test_a_server_that_stands_still_is_left_and_tried_again(
    server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SETTINGS, "http.lowSpeedTime", "1")
    server.faults = [Fault(hang=True)]
    assert (cloned(tmp_path, f"{server.url}/code") / "version").exists()
    assert "too slow" in capfd.readouterr().err


@pytest.mark.process
def test_git_itself_that_never_ends_is_ended_and_tried_again(
    server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    limit = cloning.LONGEST_TRY
    clock = Clock(lambda: monkeypatch.setattr(cloning, "LONGEST_TRY", limit))
    monkeypatch.setattr(cloning, "LONGEST_TRY", 0)
    assert (cloned(tmp_path, f"{server.url}/code", clock) / "version").exists()
    assert "git timed out" in capfd.readouterr().err


@pytest.mark.process
def test_a_slow_server_is_waited_for(server: GitServer, tmp_path: Path) -> None:
    clock = Clock()
    server.faults = [Fault(slowly=True)] * 3
    assert (cloned(tmp_path, f"{server.url}/code", clock) / "version").exists()
    assert not clock.pauses


@pytest.mark.process
def test_what_the_server_asks_to_wait_is_waited(server: GitServer, tmp_path: Path) -> None:
    clock = Clock()
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 400))
    server.faults = [Fault(429, {"Retry-After": "7"}), Fault(503, {"retry-after": date}), Fault(503)]
    cloned(tmp_path, f"{server.url}/code", clock)
    first, second, third = clock.pauses
    assert 7 <= first <= 8
    assert 200 < second <= 402
    assert third <= 4


@pytest.mark.process
def test_a_server_that_asks_to_wait_for_longer_than_there_is_time_is_not_waited_for(
    server: GitServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    server.faults = [Fault(503, {"Retry-After": "3600"})]
    with pytest.raises(CloneFailed, match="returned error: 503"):
        cloned(tmp_path, f"{server.url}/code", clock)
    assert not clock.pauses
    assert "retry_minutes is 10, and the server asks to wait 3600 seconds" in capfd.readouterr().err


FAILS_AT_ONCE = {
    "404": ({}, [Fault(404)], "not found"),
    "403": ({}, [Fault(403)], "returned error: 403"),
    "410": ({}, [Fault(410)], "returned error: 410"),
    "401": ({}, [Fault(401)], "a private repository needs a token"),
    "a wrong token": ({"token": TOKEN}, [Fault(401)] * 2, "Authentication failed"),
    "an unknown branch": ({"ref": "nowhere"}, [], "Remote branch nowhere not found"),
    "an unknown commit": ({"ref": "0" * 40}, [], "not our ref"),
    "a bad value of an option": ({"options": ["--filter=nonsense"]}, [], "invalid filter-spec"),
}


@pytest.mark.process
@pytest.mark.parametrize(("parameters", "faults", "words"), FAILS_AT_ONCE.values(), ids=FAILS_AT_ONCE)
def test_what_will_not_pass_fails_at_once_in_gits_own_words(
    server: GitServer, tmp_path: Path, parameters: dict[str, Any], faults: list[Fault], words: str
) -> None:
    server.faults = [
        Fault(fault.status, {"WWW-Authenticate": 'Basic realm="git"'}) if fault.status == 401 else fault
        for fault in faults
    ]
    clock = Clock()
    with pytest.raises(CloneFailed) as failed:
        cloned(tmp_path, f"{server.url}/code", clock, **parameters)
    assert words in str(failed.value)
    assert TOKEN not in str(failed.value)
    assert not clock.pauses


@pytest.mark.process
def test_what_may_be_secret_in_the_url_of_a_submodule_is_in_no_message(
    server: GitServer, repositories: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outer, url = (
        repositories / "secretive",
        f"http://me:hunter2@{server.url.partition('//')[2]}/none?key=hunter2",
    )
    make_repository(outer, commits=1)
    git(outer, "config", "--file", ".gitmodules", "submodule.inner.path", "inner")
    git(outer, "config", "--file", ".gitmodules", "submodule.inner.url", url)
    git(outer, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    git(outer, "add", ".gitmodules")
    git(outer, "commit", "--quiet", "--message", "Add inner")
    with pytest.raises(CloneFailed) as failed:
        cloned(tmp_path, f"{server.url}/{outer.name}", submodules=True, retry_minutes=0)
    said = f"{failed.value}{capfd.readouterr().err}"
    assert f"{server.url}/none" in said
    assert "hunter2" not in said


@pytest.mark.process
def test_a_machine_without_git_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CloneFailed, match="git is not installed"):
        cloned(tmp_path, "https://git.example/code")


@pytest.mark.process
def test_without_a_budget_there_is_one_try(server: GitServer, task: Task) -> None:
    server.faults = [Fault(503)] * 2
    with pytest.raises(CloneFailed, match="503"):
        pai_init(use(f"{server.url}/code", retry_minutes=0), task)
    assert len(server.requests) == 1


@pytest.mark.process
def test_many_real_clients_of_a_server_that_refuses_every_fourth_request_all_get_through(
    server: GitServer, tmp_path: Path
) -> None:
    """Two hundred of them at ten a second, in real time, are `./dev bench crowd`."""
    requests = itertools.count(1)
    server.admit = lambda: bool(next(requests) % 4)

    def client(number: int) -> bool:
        folder = tmp_path / str(number)
        folder.mkdir()
        return (cloned(folder, f"{server.url}/code", Clock(), budget=1e9) / "version").exists()

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(client, range(20)))
    assert len(server.requests) > 3 * 20


# --- other servers


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "sshd") as server:
        monkeypatch.setenv("GIT_SSH_COMMAND", server.command)
        yield server


needs_ssh = pytest.mark.needs("openssh-client", "openssh-server")


@pytest.mark.process
@needs_ssh
def test_a_job_clones_by_ssh_with_the_keys_that_the_machines_variables_name(
    sshd: SshServer, repositories: Path, tmp_path: Path
) -> None:
    path = write_job(tmp_path, job_with(f"{sshd.url}{repositories}/code", ref="dev", depth=1))
    done = cli("run", path, "--out", tmp_path / "run", "--env", "GIT_SSH_COMMAND")
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


SSH_FAILURES: dict[str, tuple[Callable[[SshServer], object], str, str]] = {
    "a key that is not let in": (
        lambda server: (server.folder / "authorized_keys").write_text(""),
        "{root}/code",
        "Permission denied (publickey)",
    ),
    "a host that is not known": (
        lambda server: (server.folder / "known_hosts").write_text(""),
        "{root}/code",
        "Host key verification failed",
    ),
    "no such repository": (lambda _: None, "/nowhere", "does not appear to be a git repository"),
}


@pytest.mark.process
@needs_ssh
@pytest.mark.parametrize(("spoil", "path", "words"), SSH_FAILURES.values(), ids=SSH_FAILURES)
def test_what_ssh_is_refused_fails_at_once_in_its_own_words(
    sshd: SshServer,
    repositories: Path,
    tmp_path: Path,
    spoil: Callable[[SshServer], object],
    path: str,
    words: str,
) -> None:
    spoil(sshd)
    clock = Clock()
    with pytest.raises(CloneFailed) as failed:
        cloned(tmp_path, f"{sshd.url}{path.format(root=repositories)}", clock)
    assert words in str(failed.value)
    assert not clock.pauses


@pytest.mark.process
def test_gits_own_server_is_cloned_from(repositories: Path, tmp_path: Path) -> None:
    with git_daemon(repositories) as port:
        url = f"git://127.0.0.1:{port}"
        assert (cloned(tmp_path, f"{url}/code", depth=1) / "version").read_text() == "3\n"
        clock = Clock()
        with pytest.raises(CloneFailed, match="access denied or repository not exported: /nowhere"):
            cloned(tmp_path, f"{url}/nowhere", clock)
        assert not clock.pauses


@pytest.mark.process
@pytest.mark.parametrize("scheme", ["git", pytest.param("ssh", marks=needs_ssh)])
def test_a_server_that_refuses_connections_is_not_tried_for_ever(tmp_path: Path, scheme: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        clock = Clock()
        with pytest.raises(CloneFailed, match="Connection refused"):
            cloned(tmp_path, f"{scheme}://127.0.0.1:{nobody.getsockname()[1]}/code", clock, budget=60)
    assert clock.pauses
    assert sum(clock.pauses) < 61


# --- secrets


@pytest.mark.process
def test_a_token_is_in_no_argument_variable_file_or_log(
    server: GitServer, task: Task, capfd: pytest.CaptureFixture[str], repositories: Path
) -> None:
    outer = repositories / "private"
    make_repository(outer, commits=1)
    git(outer, "submodule", "--quiet", "add", f"{server.url}/code", "inner")
    git(outer, "commit", "--quiet", "--message", "Add inner")
    token = secrets.token_hex()  # no process of another test has it
    server.password = f"x-access-token:{token}"
    forms = [token.encode(), base64.b64encode(server.password.encode())]
    found: list[str] = []
    looked: set[str] = set()

    def look(_request: Request) -> None:
        for entry in Path("/proc").iterdir():
            for name in ("cmdline", "environ"):
                try:
                    text = (entry / name).read_bytes() if entry.name.isdecimal() else b""
                except OSError:
                    continue
                looked.add(text.partition(b"\0")[0].rpartition(b"/")[2].decode(errors="replace"))
                if any(form in text for form in forms):
                    found.append(f"{entry.name} {name}")
        for folder, _, files in os.walk(task.folder):  # which goes on when git removes a folder
            paths = [Path(folder, file) for file in files]
            found.extend(str(path) for path in paths if any(form in content(path) for form in forms))

    server.seen = look
    pai_init(use(f"{server.url}/private", token=token, submodules=True), task)
    look(server.requests[0])
    assert not found
    assert "git" in looked
    assert (task.folder / "code" / "inner" / "version").exists()
    assert token not in "".join(capfd.readouterr())


@pytest.mark.process
def test_the_user_name_is_the_one_in_the_url(server: GitServer, tmp_path: Path) -> None:
    server.password = f"me@work:{TOKEN}"
    url = server.url.replace("http://", "http://me%40work@")
    assert (cloned(tmp_path, f"{url}/code", token=TOKEN) / "version").exists()


@pytest.mark.process
@pytest.mark.parametrize("way", ["redirection", "submodule"])
def test_no_other_server_gets_the_token(
    server: GitServer, repositories: Path, tmp_path: Path, way: str
) -> None:
    server.password = f"x-access-token:{TOKEN}"
    with GitServer(repositories) as other:
        other.password = "someone:else"
        outer = repositories / f"to-another-{way}"
        make_repository(outer, commits=1)
        if way == "submodule":
            (outer / ".gitmodules").write_text(f'[submodule "x"]\npath = x\nurl = {other.url}/code\n')
            commit = git(repositories / "code", "rev-parse", "HEAD")
            git(outer, "update-index", "--add", "--cacheinfo", f"160000,{commit},x")
            git(outer, "add", ".gitmodules")
            git(outer, "commit", "--quiet", "--message", "Add x")
        else:
            location = f"{other.url}/code/info/refs?service=git-upload-pack"
            server.faults = [Fault(302, {"Location": location})]
        with pytest.raises(CloneFailed):
            cloned(tmp_path, f"{server.url}/{outer.name}", token=TOKEN, submodules=True)
        assert other.requests
        assert {request.credentials for request in other.requests} == {None}


def test_a_token_cannot_say_more_than_a_token(tmp_path: Path) -> None:
    with pytest.raises(CloneFailed, match="line break"):
        cloned(tmp_path, "https://git.example/code", token=f"{TOKEN}\nhost=evil")


# --- whole jobs


def job_with(uri: str, policy: str = "fail", **parameters: Any) -> dict[str, Any]:
    prerequisite = {"name": "code", "type": "script", "plugin": "git", "failurePolicy": policy}
    return job(
        prerequisites=[{**prerequisite, "repo_uri": uri, **parameters}],
        worker={"script": "code", "commands": ['cat "$PAI_GIT_DIR/version" || echo none']},
    )


def runtime_log(run: Path) -> str:
    return (run / "worker" / "0" / "logs" / "runtime.log").read_text()


@pytest.mark.process
def test_a_job_runs_in_what_was_cloned_with_a_token_from_its_secrets(
    server: GitServer, tmp_path: Path
) -> None:
    server.password = f"x-access-token:{TOKEN}"
    server.faults = [Fault(503, {"Retry-After": "0"})]
    parameters: dict[str, Any] = {
        "ref": "v1",
        "depth": 1,
        "clone_dir": str(tmp_path / "else"),
        "token": "<% $secrets.git %>",
    }
    path = write_job(tmp_path, job_with(f"{server.url}/code", **parameters))
    (tmp_path / "secrets.yaml").write_text(yaml.safe_dump({"git": TOKEN}))
    done = cli("run", "--secrets", tmp_path / "secrets.yaml", path, "--out", tmp_path / "run")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert f"moved into place at {tmp_path / 'else'}" in runtime_log(tmp_path / "run")
    found = subprocess.run(["grep", "-r", TOKEN, tmp_path / "run"], capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (1, b"")


@pytest.mark.process
def test_the_parameters_of_the_first_runtime_still_work_in_extras(server: GitServer, tmp_path: Path) -> None:
    extra = {
        "plugin": "git",
        "parameters": {
            "repo_uri": f"{server.url}/code",
            "options": ["--depth 1", "--branch=dev"],
            "clone_dir": str(tmp_path / "else"),
        },
    }
    path = write_job(
        tmp_path,
        job(
            extras={"com.microsoft.pai.runtimeplugin": [extra]},
            worker={"commands": [f"cd {shlex.quote(str(tmp_path))}/else", "cat version"]},
        ),
    )
    done = cli("run", path, "--out", tmp_path / "run")
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


FAILURES: dict[str, tuple[dict[str, Any], list[Fault], str, str]] = {
    "no repository": ({}, [Fault(404)], "init", "not found"),
    "no access": ({"repo_uri": "{url}/code"}, [Fault(403)], "init", "returned error: 403"),
    "unknown ref": ({"ref": "nowhere"}, [], "init", "Remote branch nowhere not found in upstream origin"),
    "out of time": ({"retry_minutes": 0}, [Fault(503)], "init", "returned error: 503"),
    "taken": ({"clone_dir": "{tmp}"}, [], "taskStarts", "is not empty"),
}


@pytest.mark.process
@pytest.mark.parametrize(
    ("what", "policy"),
    [*((what, "fail") for what in FAILURES), ("no repository", "ignore"), ("taken", "ignore")],
)
def test_a_clone_that_fails_is_followed_by_what_the_failure_policy_says(
    server: GitServer, tmp_path: Path, what: str, policy: str
) -> None:
    parameters, faults, phase, words = FAILURES[what]
    server.faults = list(faults)
    given = {
        name: value.format(url=server.url, tmp=tmp_path) if isinstance(value, str) else value
        for name, value in parameters.items()
    }
    path = write_job(tmp_path, job_with(**{"uri": f"{server.url}/code", "policy": policy, **given}))
    done = cli("run", path, "--out", tmp_path / "run")
    log = runtime_log(tmp_path / "run")
    assert words in log
    assert "Traceback" not in log
    assert f"hook pai_{'init' if phase == 'init' else 'task_starts'}: " in log
    if policy == "fail":
        assert (done.returncode, done.stdout) == (240, "")
        record = yaml.safe_load((tmp_path / "run/worker/0/exit.yaml").read_text())
        assert (record["outcome"], record["phase"]) == ("setup-failed", phase)
    else:
        assert (done.returncode, done.stdout) == (0, "none\n")
        assert "ignored by its failurePolicy" in log
    assert not list((tmp_path / "run/worker/0").glob("code"))


@pytest.mark.process
@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_a_request_that_cannot_be_followed_is_said_before_anything_starts(
    tmp_path: Path, policy: str
) -> None:
    path = write_job(tmp_path, job_with("https://git.example/a", policy, options=["--upload-pack=/evil"]))
    done = cli("run", path, "--out", tmp_path / "run")
    if policy == "fail":
        assert done.returncode == 2
        assert "hook pai_prerequisite: the option '--upload-pack' is not" in done.stderr
        assert not (tmp_path / "run").exists()
    else:
        assert (done.returncode, done.stdout) == (0, "none\n")
        assert "the option '--upload-pack' is not allowed" in runtime_log(tmp_path / "run")


@pytest.mark.process
@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(503, {"Retry-After": "500"})])
def test_a_task_that_is_cancelled_while_it_clones_ends_and_leaves_nothing(
    server: GitServer, tmp_path: Path, fault: Fault
) -> None:
    asked = threading.Event()
    server.faults = [fault]
    server.seen = lambda _: asked.set()
    path = write_job(tmp_path, job_with(f"{server.url}/code"))
    process = subprocess.Popen([PROGRAM, "run", path, "--out", tmp_path / "run"], start_new_session=True)
    try:
        assert asked.wait(60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    finally:
        process.kill()
        process.wait()
    assert not list((tmp_path / "run/worker/0").glob("*git*"))
    assert not (tmp_path / "run/worker/0/code").exists()
    record = yaml.safe_load((tmp_path / "run/worker/0/exit.yaml").read_text())
    assert (record["outcome"], record["phase"]) == ("cancelled", "init")
