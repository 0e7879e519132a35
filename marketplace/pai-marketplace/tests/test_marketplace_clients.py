"""What pai-definitions gets from a marketplace, and from its static export."""

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from pai_definitions.fetching import Fetcher
from pai_definitions.index import IndexSource
from pai_definitions.library import SourceLibrary
from pai_definitions.web import Web
from pai_document.problems import Problems
from pai_marketplace.export import export
from tests.definition_sources import code_of, find
from tests.running_marketplace import RunningMarketplace, definition
from tests.support import cli, job


@contextmanager
def _any_web_server(folder: Path) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.json"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(params=["server", "static export"])
def index(request: pytest.FixtureRequest, market: RunningMarketplace, tmp_path: Path) -> Iterator[str]:
    """The URL of an index with some items in it."""
    assert market.publish(definition(), note="first").status == 201
    assert market.publish(definition(version="1.10", command="echo newest"), note="second").status == 201
    assert market.publish(definition(version="1.9"), by="bob").status == 201
    assert (
        market.publish(definition("more", more="require: [marketplace://name/alice/mnist]\n")).status == 201
    )
    assert market.publish(definition("secret"), visibility="private").status == 201
    whole = yaml.safe_dump(job(version="1.0"))
    assert market.publish(whole, name="whole").status == 201
    if request.param == "server":
        yield f"{market.url}/v1/index.json"
        return
    export(market.database, tmp_path / "export")
    with _any_web_server(tmp_path / "export") as url:
        yield url


def _library(index: str, *authors: str) -> SourceLibrary:
    web = Web(Fetcher())
    return SourceLibrary([IndexSource("market", index, web, authors or None)], web, lambda _: None)


def test_items_by_their_names(index: str) -> None:
    library = _library(index)
    newest = find(library, "marketplace://name/alice/mnist")
    assert (newest.version, newest.file.author) == ("1.10", "alice")
    assert newest.file.origin == index.replace("index.json", "items/alice/mnist/1.10.yaml")
    assert find(library, "marketplace://data/alice/mnist@1.0").version == "1.0"
    first = find(library, "marketplace://name/alice/mnist@1.0").file.digest
    assert find(library, f"marketplace://name/alice/mnist@sha256:{first}").version == "1.0"
    for reference, code in (
        ("marketplace://name/alice/mnist@2.0", "no-such-definition"),
        ("marketplace://script/alice/mnist", "no-such-definition"),
        ("marketplace://name/alice/none", "no-such-definition"),
        ("marketplace://name/alice/secret", "no-such-definition"),
        ("marketplace://name/mnist", "no-such-definition"),
        ("marketplace://name/alice/whole", "wrong-reference"),
        (f"marketplace://name/alice/mnist@sha256:{'0' * 64}", "wrong-digest"),
    ):
        assert code_of(library, reference) == code, reference
    assert find(_library(index, "bob", "alice"), "marketplace://name/mnist").file.author == "bob"
    listed = IndexSource("market", index, Web(Fetcher())).list(Problems())
    assert {each.reference.removeprefix("marketplace://name/") for each in listed} == {
        "alice/mnist",
        "bob/mnist",
        "alice/more",
    }


@pytest.mark.process
def test_a_job_is_locked_and_runs(index: str, market: RunningMarketplace, tmp_path: Path) -> None:
    configuration = tmp_path / "config" / "pai-runtime" / "marketplace.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(yaml.safe_dump({"sources": [{"name": "market", "marketplace": index}]}))
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    wanted = job(worker={"prerequisites": ["marketplace://name/alice/more"]})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(wanted))
    locked = cli("lock", "job.yaml", cwd=tmp_path, env=env)
    assert locked.returncode == 0, locked.stderr
    pins = yaml.safe_load((tmp_path / "job.yaml.lock").read_text())["definitions"]
    assert {each["version"] for each in pins if each["name"] == "mnist"} == {"1.10"}
    market.publish(definition(version="2.0", command="exit 9"))
    ran = cli("run", "job.yaml", "--out", "out", cwd=tmp_path, env=env)
    assert ran.returncode == 0, ran.stderr
    assert "newest" in (tmp_path / "out/worker/0/logs/runtime.log").read_text()


def test_an_answer_that_is_current_is_not_sent_again(market: RunningMarketplace) -> None:
    market.publish(definition())
    for path in ("/v1/items/alice/mnist/1.0.yaml", "/v1/items/alice/mnist.json", "/v1/index.json"):
        first = market.call("GET", path)
        etag = first.headers["etag"]
        for known in (etag, f'"other", W/{etag}', "*"):
            again = market.call("GET", path, headers={"If-None-Match": known})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        assert market.call("GET", path, headers={"If-None-Match": '"other"'}).status == 200
    digest = market.call("GET", "/v1/items/alice/mnist/1.0.yaml").headers["etag"].strip('"')[7:]
    assert market.call("GET", f"/v1/sha256/{digest}.yaml").body == definition().encode()
