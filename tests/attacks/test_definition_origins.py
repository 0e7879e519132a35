"""Definitions that would pass for ones of a place that a policy allows."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from pai_definitions.cache import Cache
from pai_definitions.cached_fetching import CachedFetcher
from pai_definitions.fetching import Fetcher
from pai_definitions.library import SourceLibrary
from pai_definitions.lock import read_lock
from pai_definitions.single_file import FileSource
from pai_definitions.web import Web
from pai_document.problems import Problems
from pai_runtime.definitions import NoDefinition
from pai_runtime.host.host import Host
from pai_runtime.host.policy import NO_POLICY
from pai_runtime.job.load import load_job
from pai_runtime.plan.planning import job_plugins
from tests.definition_sources import code_of, find, library, text
from tests.fault_server import FaultServer, Reply, Request
from tests.support import cli, cli_each, job, write_job

EVIL = text("evil").encode()


def test_bytes_that_are_cached_are_those_of_their_url_only(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cached = CachedFetcher(Fetcher, cache, lambda _: None)
    digest = sha256(EVIL).hexdigest()
    with FaultServer(Reply(body=EVIL)) as evil, FaultServer(Reply(body=text("good").encode())) as good:
        allowed = SourceLibrary([], Web(cached, (), cache.pinned), lambda _: None)
        assert find(allowed, f"{evil.url}/a.yaml").name == "evil"
        assert code_of(allowed, f"{good.url}/a.yaml@sha256:{digest}") == "wrong-digest"
    assert find(allowed, f"{evil.url}/a.yaml@sha256:{digest}").name == "evil"


def test_a_link_that_leads_elsewhere_by_now_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "allowed.yaml").write_text(text("good"))
    (tmp_path / "evil.yaml").write_bytes(EVIL)
    link = tmp_path / "link.yaml"
    link.symlink_to("allowed.yaml")
    source = FileSource("team", link)
    link.unlink()
    link.symlink_to("evil.yaml")
    found = find(library(source, refused=[str(tmp_path / "evil.yaml")]), "marketplace://name/good")
    assert found.file.location == str(tmp_path / "allowed.yaml")


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 19, "+4", "4_0", "4,4", "\xb2", ""])
def test_an_answer_whose_length_is_no_number_of_bytes_may_have_been_cut(length: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nname".encode("latin-1")
    with FaultServer(Reply(raw=answer)) as server, pytest.raises(NoDefinition) as raised:
        Fetcher(seconds=1).get(server.url)
    assert raised.value.code == "definition-unavailable"


@pytest.mark.parametrize("url", ["https://u:hunter2@x/", "https://x/?sig=hunter2", "HTTP://x?a@b#hunter2"])
def test_what_may_be_secret_in_a_url_is_in_no_message(tmp_path: Path, url: str) -> None:
    document = job()
    document["taskRoles"]["worker"]["prerequisites"] = [url]
    found = Problems()
    with found.caught():
        load_job(write_job(tmp_path, document), None, job_plugins(Host(NO_POLICY)), found)
    (problem,) = (each for each in found.in_order if each.field.endswith("prerequisites[0]"))
    assert "hunter2" not in f"{problem} {problem.found}"


OF_THE_MACHINE = (
    "hunter2",
    "pass: hunter2",
    "pass:hunter2",
    "- hunter2",
    "[[hunter2]]",
    "{a: hunter2, b: [",
    "4222",
)


@pytest.mark.process
def test_a_path_that_leads_to_any_file_of_the_machine_has_no_message_repeat_what_is_in_it(
    tmp_path: Path,
) -> None:
    paths = []
    for number, content in enumerate(OF_THE_MACHINE):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "file").write_text(content)
        required = {"name": "x", "type": "data", "require": ["./file"]}
        paths.append(write_job(folder, job(prerequisites=[required], worker={"prerequisites": ["x"]})))
    files = [str(path.parent / "file") for path in paths]
    lines, document = cli_each(["validate", *paths], ["validate", "--json", *paths])
    assert all(file in lines.stderr for file in files)
    assert all(json.dumps(file)[1:-1] in document.stdout for file in files)
    for ended in (lines, document):
        assert ended.returncode == 1
        assert "hunter2" not in ended.stdout + ended.stderr
        assert "4222" not in ended.stdout + ended.stderr


class _Guarded(FaultServer):
    """Gives a definition to whoever has the right query; it requires one that is beside it."""

    def next_reply(self, request: Request) -> Reply:
        super().next_reply(request)
        if request.path not in ("/a.yaml?sig=hunter2", "/b.yaml"):
            return Reply(403)
        more = "require: ['./b.yaml']\n" if "a.yaml" in request.path else ""
        return Reply(body=text(request.path[1]).encode() + more.encode())


@pytest.mark.process
def test_the_query_of_a_url_is_asked_for_and_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    with _Guarded(Reply(403)) as server:
        url = f"{server.url}/a.yaml?sig=hunter2"
        lines: list[list[str | Path]] = [
            ["run", "job.yaml", "--out", "run"],
            ["validate", "job.yaml", "--json"],
            ["plan", "job.yaml"],
            ["plan", "job.yaml", "--json"],
            ["lock", "job.yaml", "--with-content", "content.lock"],
            ["lock", "job.yaml", "--update", url],
            ["marketplace", "show", url],
            ["marketplace", "show", url, "--json"],
        ]
        write_job(tmp_path, job(worker={"prerequisites": [url]}))
        for line in lines:
            monkeypatch.setenv("XDG_CACHE_HOME", f"cache-of-{len(line)}")
            ended = cli(*line)
            assert ended.returncode == 0, ended.stderr
            assert "hunter2" not in ended.stdout + ended.stderr
        (_, pinned) = read_lock(Path("job.yaml.lock")).pins.values()
        monkeypatch.setenv("XDG_CACHE_HOME", "none")
        assert cli("plan", "job.yaml").returncode == 0  # asked for by what the job says
        Path("content.lock").rename("job.yaml.lock")
        monkeypatch.setenv("XDG_CACHE_HOME", "none-either")
        asked = len(server.requests)
        assert cli("plan", "job.yaml").returncode == 0
        assert len(server.requests) == asked
        write_job(tmp_path, job(worker={"prerequisites": [f"{server.url}/a.yaml?sig=hunter3"]}))
        assert cli("validate", "job.yaml").returncode == 1  # another URL is not locked
    assert pinned.origin.startswith(f"{server.url}/a.yaml?")
    for path in tmp_path.rglob("*"):
        assert "hunter2" not in str(path)
        assert path.is_dir() or b"hunter2" not in path.read_bytes()


@pytest.mark.process
@pytest.mark.parametrize(
    "url", ["https://u:hunter2@x/a.yaml", "https://x /?sig=hunter2", "http://u:hunter2@"]
)
def test_what_may_be_secret_in_the_url_of_a_source_is_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    folder = tmp_path / "pai-runtime"
    folder.mkdir()
    (folder / "marketplace.yaml").write_text(f"sources: [{{name: a, url: '{url}'}}]\n")
    (tmp_path / "policy.yaml").write_text(
        f"policyVersion: 1\nplugins: []\ndefinitions: {{sources: ['{url}']}}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    listed, refused = cli("marketplace", "list"), cli("plugins", "check-policy", tmp_path / "policy.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    for ended in (listed, refused, cli("marketplace", "add", url)):
        assert ended.returncode != 0
        assert "hunter2" not in ended.stdout + ended.stderr
