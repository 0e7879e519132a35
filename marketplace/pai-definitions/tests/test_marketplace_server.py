"""Definitions on OpenPAI's marketplace server, by their names and ids."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_definitions.configuration import read_sources
from pai_definitions.fetching import Fetcher
from pai_definitions.library import SourceLibrary
from pai_definitions.reference import parse_reference
from pai_definitions.server import MarketplaceSource
from pai_definitions.sources import open_sources
from pai_definitions.web import Web
from pai_document.problems import InvalidInput, Problems
from pai_runtime.definitions import NoDefinition
from tests.definition_sources import Network, code_of, find, folder_source, library, text
from tests.marketplace_server import MarketplaceServer, item
from tests.support import job

_ALICE = "alice-token"

AUTHORS = ("alice", "bob", "carol")
"""Whose items are found by their names."""


@pytest.fixture
def server() -> Iterator[MarketplaceServer]:
    with MarketplaceServer() as running:
        yield running


def _web(server: MarketplaceServer, token: str | None) -> Web:
    return Web(Fetcher(), [(server.url, lambda: token)])


def _library(server: MarketplaceServer, token: str | None = _ALICE) -> SourceLibrary:
    web = _web(server, token)
    return SourceLibrary([_source(server, web)], web, lambda _: None)


def _source(
    server: MarketplaceServer, web: Web, authors: Sequence[str] | None = AUTHORS
) -> MarketplaceSource:
    return MarketplaceSource("pai", server.url, web, authors)


def _of(published: dict[str, Any]) -> str:
    return f"marketplace://prerequisites/itemId/{published['id']}"


def test_an_item_is_found_by_its_name_and_by_its_id(server: MarketplaceServer) -> None:
    published = item("mnist", text("mnist", type="data"), type="data")
    server.publish(item("other", text("other")), published)
    origin = f"{server.url}/api/items/{published['id']}"
    for reference in ("marketplace://name/mnist", "marketplace://data/mnist", _of(published)):
        definition = find(_library(server), reference)
        assert (definition.name, definition.file.origin, definition.file.author) == ("mnist", origin, "alice")
    assert _library(server).file(origin).content == published["protocol"].encode()


def test_an_item_is_asked_for_by_its_exact_name_and_with_the_token(server: MarketplaceServer) -> None:
    server.publish(item("mnist", text("mnist")))
    find(_library(server), "marketplace://name/mnist")
    assert server.requests == [("/marketplace/api/items?name=mnist", "alice-token")]


@pytest.mark.parametrize("token", [None, "wrong-token"])
def test_without_a_valid_token_there_is_no_right(server: MarketplaceServer, token: str | None) -> None:
    published = item("mnist", text("mnist"))
    server.publish(published)
    for reference in ("marketplace://name/mnist", _of(published)):
        assert code_of(_library(server, token), reference) == "definition-forbidden"


@pytest.mark.parametrize(
    ("fields", "who", "by_name"),
    [
        ({}, {"alice", "bob", "admin"}, {"alice", "bob", "admin"}),
        ({"isPublic": False, "isPrivate": True}, {"alice", "admin"}, {"alice", "admin"}),
        ({"isPublic": False, "groupList": ["vision"], "author": "carol"}, {"alice", "admin"}, {"admin"}),
        ({"isPublic": False, "isPrivate": True, "author": "bob"}, {"bob", "admin"}, {"bob", "admin"}),
    ],
)
def test_an_item_is_for_those_who_may_see_it(
    server: MarketplaceServer, fields: dict[str, Any], who: set[str], by_name: set[str]
) -> None:
    published = item("mnist", text("mnist"), **fields)
    server.publish(published)
    for user in ("alice", "bob", "admin"):
        found = _library(server, f"{user}-token")
        if user in who:
            assert find(found, _of(published)).name == "mnist"
        else:
            assert code_of(found, _of(published)) == "definition-forbidden"
        if user in by_name:
            assert find(found, "marketplace://name/mnist").name == "mnist"
        else:
            assert code_of(found, "marketplace://name/mnist") == "no-such-definition"


def test_an_item_that_is_not_there_may_be_on_the_next_server(server: MarketplaceServer) -> None:
    published = item("mnist", text("mnist"))
    with MarketplaceServer(published) as other:
        sources = [
            MarketplaceSource(each.url[7:], each.url, _web(each, "bob-token"), AUTHORS)
            for each in (server, other)
        ]
        found = library(*sources)
        assert find(found, _of(published)).file.origin.startswith(other.url)
        assert code_of(found, "marketplace://prerequisites/itemId/none") == "no-such-definition"


def test_items_of_equal_names_are_told_apart_by_their_ids(server: MarketplaceServer) -> None:
    same = [item("mnist", text("mnist"), author=author) for author in ("alice", "bob")]
    server.publish(*same)
    with pytest.raises(NoDefinition) as raised:
        find(_library(server), "marketplace://name/mnist")
    assert raised.value.code == "ambiguous-definition"
    for each in same:
        assert each["id"] in str(raised.value)
        assert f"by {each['author']}" in str(raised.value)
        assert find(_library(server), _of(each)).file.author == each["author"]


def test_items_of_equal_names_are_told_apart_by_type_and_version(server: MarketplaceServer) -> None:
    server.publish(
        item("mnist", text("mnist", type="data", version="'1'"), type="data"),
        item("mnist", text("mnist", type="script", version="'1'")),
        item("mnist", text("mnist", type="script", version="'2'")),
    )
    found = _library(server)
    assert find(found, "marketplace://data/mnist").kind == "data"
    assert find(found, "marketplace://script/mnist").version == "2"
    assert find(found, "marketplace://script/mnist@1").version == "1"


@pytest.mark.parametrize(("status", "by_id"), [("pending", ""), ("rejected", "definition-forbidden")])
def test_by_name_only_what_is_approved_is_meant(server: MarketplaceServer, status: str, by_id: str) -> None:
    published = item("mnist", text("mnist"), status=status)
    server.publish(published)
    with pytest.raises(NoDefinition) as raised:
        find(_library(server), "marketplace://name/mnist")
    assert raised.value.code == "definition-forbidden"
    if by_id:
        assert code_of(_library(server), _of(published)) == by_id
    else:
        assert find(_library(server), _of(published)).name == "mnist"
    approved = item("mnist", text("mnist", title="approved"))
    server.publish(published, approved)
    assert find(_library(server), "marketplace://name/mnist").title == "approved"


@pytest.mark.parametrize("digest", [False, True])
def test_by_name_only_those_authors_count_that_the_source_lists_unless_a_digest_pins_the_item(
    server: MarketplaceServer, *, digest: bool
) -> None:
    ours, others = (item("mnist", text("mnist", title=who), author=who) for who in ("alice", "mallory"))
    web = _web(server, _ALICE)
    listed = library(MarketplaceSource("pai", server.url, web, authors=("alice",)))
    server.publish(others, ours)
    pin = hashlib.sha256(others["protocol"].encode()).hexdigest()
    reference = f"marketplace://name/mnist@sha256:{pin}" if digest else "marketplace://name/mnist"
    assert find(listed, reference).title == ("mallory" if digest else "alice")
    assert find(listed, _of(others)).title == "mallory"
    source = MarketplaceSource("pai", server.url, web, authors=("alice",))
    assert [each.title for each in source.list(Problems())] == ["alice"]
    server.publish(others)
    alone = library(MarketplaceSource("pai", server.url, web, authors=("alice",)))
    assert code_of(alone, "marketplace://name/mnist") == "definition-forbidden"


@pytest.mark.parametrize("authors", [None, ()])
def test_without_authors_nothing_is_found_by_its_name_alone(
    server: MarketplaceServer, authors: Sequence[str] | None
) -> None:
    published = item("mnist", text("mnist"))
    server.publish(published)
    source = _source(server, _web(server, _ALICE), authors)
    with pytest.raises(NoDefinition) as raised:
        find(library(source), "marketplace://name/mnist")
    assert raised.value.code == "definition-forbidden"
    assert _of(published) in str(raised.value)
    assert "authors" in str(raised.value)
    pin = hashlib.sha256(published["protocol"].encode()).hexdigest()
    for reference in (_of(published), f"marketplace://name/mnist@sha256:{pin}"):
        assert find(library(source), reference).name == "mnist"
    listed = [each.reference for each in source.list(Problems())]
    assert listed == ([_of(published)] if authors is None else [])


def test_what_is_on_a_server_takes_no_name_of_what_comes_from_elsewhere(
    server: MarketplaceServer, tmp_path: Path
) -> None:
    configuration = tmp_path / "marketplace.yaml"
    sources = [{"name": "pai", "marketplace": server.url}, {"name": "own", "folder": str(tmp_path)}]
    configuration.write_text(json.dumps({"sources": sources}))
    opened, _ = open_sources(read_sources([configuration]), {}, Fetcher())
    assert [source.name for source in opened] == ["own", "embedded", "pai"]


@pytest.mark.parametrize("type_", ["template", "old"])
def test_a_job_is_no_definition(server: MarketplaceServer, type_: str) -> None:
    published = item("mnist", _job_of(_DATA), type=type_)
    server.publish(published)
    assert code_of(_library(server), _of(published)) == "wrong-reference"
    server.publish(published, item("mnist", text("mnist")))
    assert find(_library(server), "marketplace://name/mnist").name == "mnist"


def _job_of(*prerequisites: dict[str, Any]) -> str:
    """A whole job, as the server asks of each item, also of one of data."""
    image = {"name": "image", "type": "dockerimage", "uri": "debian"}
    return json.dumps(job(prerequisites=[image, *prerequisites]))


_DATA = {"name": "mnist", "type": "data", "uri": ["https://example.org/mnist.zip"]}


def test_a_job_with_one_data_prerequisite_is_that_prerequisite(server: MarketplaceServer) -> None:
    published = item("mnist", _job_of(_DATA), type="data")
    named = item("Hand written digits", _job_of({**_DATA, "name": "digits"}), type="data")
    server.publish(published, named)
    for reference in ("marketplace://name/mnist", "marketplace://data/mnist", _of(published)):
        assert find(_library(server), reference).value.data == _DATA
    assert find(_library(server), _of(named)).name == "digits"
    source = _source(server, _web(server, _ALICE))
    listed = {each.name: each.reference for each in source.list(Problems())}
    assert listed == {"mnist": "marketplace://name/mnist", "digits": _of(named)}


def test_items_that_are_something_else_are_counted_and_in_nobodys_way(server: MarketplaceServer) -> None:
    others = [
        item("none", _job_of(), type="data"),
        item("two", _job_of(_DATA, {**_DATA, "name": "other"}), type="data"),
        item("odd", _job_of(_DATA), type="data", id="authors choose it"),
        item("mnist", text("mnist")),
    ]
    server.publish(*others)
    source, problems = _source(server, _web(server, _ALICE)), Problems()
    assert [each.name for each in source.list(problems)] == ["mnist"]
    (problem,) = problems.in_order
    assert (problem.severity, problem.code) == ("note", "no-definitions")
    assert "3 items" in problem.message
    for each in others[:2]:
        assert code_of(_library(server), _of(each)) == "wrong-reference"


def test_an_item_that_is_not_sound_is_an_error_in_it(server: MarketplaceServer) -> None:
    published = item("mnist", "name: mnist\nplugin: [\n")
    server.publish(published)
    for reference in ("marketplace://name/mnist", _of(published)):
        with pytest.raises(InvalidInput) as raised:
            find(_library(server), reference)
        files = {each.position.file for each in raised.value.problems if each.position}
        assert files == {f"{server.url}/api/items/{published['id']}"}


def test_a_list_has_all_that_is_approved_and_no_jobs(server: MarketplaceServer) -> None:
    same = [item("mnist", text("mnist", type="data"), author=author, summary="S") for author in ("a", "b")]
    server.publish(
        *same,
        item("other", text("other", summary="own")),
        item("new", text("new"), status="pending"),
        item("job", "protocolVersion: 2\n", type="template"),
        item("broken", "plugin: ["),
    )
    source, problems = _source(server, _web(server, "bob-token"), ("a", "b", "alice")), Problems()
    assert [(each.reference, each.name, each.summary, each.author) for each in source.list(problems)] == [
        (_of(same[0]), "mnist", "S", "a"),
        (_of(same[1]), "mnist", "S", "b"),
        ("marketplace://name/other", "other", "own", "alice"),
    ]
    assert len({each.position.file for each in problems.in_order if each.position}) == 1


def _job(**fields: Any) -> dict[str, Any]:
    return {"author": "alice", "protocol": json.dumps({**job(), **fields})}


@pytest.mark.parametrize(
    ("published", "status"),
    [
        (_job(), 201),
        (_job(extras={}), 201),
        (_job(prerequisites=[{"name": "x", "type": "script", "plugin": "cmd", "callbacks": []}]), 201),
        ({"author": "alice", "protocol": text("mnist", type="data")}, 400),
        (_job(own=1), 400),
        (_job(prerequisites=[]), 400),
        (_job(prerequisites=[{"name": "x", "type": "storage"}]), 400),
        (_job(prerequisites=[{"name": "x", "type": "data", "uri": "x"}]), 400),
        ({"author": "alice", "protocol": "a: ["}, 400),
        ({"author": "alice", "protocol": ""}, 400),
        ({"protocol": json.dumps(job())}, 400),
        ({**_job(), "author": "bob"}, 403),
        ({**_job(), "status": "great"}, 500),
    ],
)
def test_the_stand_in_takes_a_new_item_if_the_real_server_did(
    server: MarketplaceServer, published: dict[str, Any], status: int
) -> None:
    assert _sent(server, "POST", "", published)[0] == status


def test_the_stand_in_takes_any_protocol_and_author_in_a_change_as_the_real_server_did(
    server: MarketplaceServer,
) -> None:
    _, created = _sent(server, "POST", "", _job())
    at = f"/{json.loads(created)['id']}"
    assert server.items[0]["status"] is None
    for fields, status in (
        ({"protocol": None}, 400),
        ({"status": "great"}, 500),
        ({"protocol": text("mnist"), "author": "bob"}, 200),
        ({"protocol": ""}, 403),
    ):
        assert _sent(server, "PUT", at, fields)[0] == status
    assert (server.items[0]["author"], server.items[0]["protocol"]) == ("bob", text("mnist"))


def _sent(server: MarketplaceServer, method: str, path: str, body: dict[str, Any]) -> tuple[int, str]:
    connection = HTTPConnection(server.host, server.port, timeout=30)
    with closing(connection):
        headers = {"Authorization": f"Bearer {_ALICE}"}
        connection.request(method, f"/marketplace/api/items{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_folder_before_the_server_spares_asking_it(server: MarketplaceServer, tmp_path: Path) -> None:
    source = MarketplaceSource("pai", server.url, _web(server, "alice-token"))
    found = library(folder_source(tmp_path, {"a.yaml": text("mnist")}), source)
    assert find(found, "marketplace://name/mnist").file.origin == "team:a.yaml"
    assert not server.requests


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_ITEM = st.fixed_dictionaries(
    {"name": st.just("mnist"), "status": st.sampled_from(["approved", "pending", None, {}]) | _JSON},
    optional={
        "id": _JSON,
        "author": _JSON | st.just("\x1b[31m"),
        "type": _JSON,
        "protocol": _JSON | st.just(text("mnist")),
        "summary": _JSON,
    },
)


@settings(max_examples=100)
@given(_JSON | st.lists(_ITEM, max_size=3), st.sampled_from(["name", "prerequisites/itemId"]))
def test_whatever_the_server_says_is_a_definition_or_an_error(document: Any, kind: str) -> None:
    base = "https://pai.example.org/marketplace"
    answer = json.dumps(document)
    network = Network({f"{base}/api/items?name=mnist": answer, f"{base}/api/items/mnist": answer})
    network.answers[f"{base}/api/items"] = answer
    source = MarketplaceSource("pai", base, Web(network))
    with suppress(NoDefinition, InvalidInput):
        assert find(library(source), f"marketplace://{kind}/mnist").name == "mnist"


@pytest.mark.parametrize(
    "answer", ["", "<html>", "[" * 100_000, '{"a": NaN}', "[" + "{}," * 10_001 + "{}]", "7"]
)
def test_what_is_no_answer_of_a_marketplace_is_an_error(answer: str) -> None:
    network = Network({"https://pai.example.org/api/items?name=mnist": answer})
    source = MarketplaceSource("pai", "https://pai.example.org", Web(network))
    with pytest.raises(NoDefinition) as raised:
        source.find(parse_reference("marketplace://name/mnist"))
    assert raised.value.code == "definition-unavailable"
