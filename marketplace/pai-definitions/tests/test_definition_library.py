"""Which definition a reference means, wherever it stands."""

import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from pai_definitions.library import SourceLibrary
from pai_definitions.single_file import UrlSource
from pai_definitions.web import Web
from pai_document.problems import InvalidInput, Position
from pai_runtime.definitions import NoDefinition
from pai_runtime.host.host import Host
from pai_runtime.host.policy import read_policy
from pai_runtime.plan.definitions import JobDefinitions
from tests.definition_sources import HERE, Network, code_of, find, folder_source, library, text, write
from tests.plugin_factory import Site
from tests.small_cluster import find_plugins_in

_DIGEST = "0" * 64


def test_the_first_source_that_has_the_name_is_used(tmp_path: Path) -> None:
    own = folder_source(tmp_path / "own", {"a.yaml": text("mnist"), "b.yaml": text("both")}, "own")
    team = folder_source(tmp_path / "team", {"a.yaml": text("imagenet"), "b.yaml": text("both")})
    found = library(own, team)
    origins = [
        find(found, f"marketplace://name/{name}").file.origin for name in ("mnist", "imagenet", "both")
    ]
    assert origins == ["own:a.yaml", "team:a.yaml", "own:b.yaml"]


def test_a_name_that_no_source_has_is_an_error_that_knows_the_others(tmp_path: Path) -> None:
    with pytest.raises(NoDefinition) as raised:
        find(library(folder_source(tmp_path, {"a.yaml": text("mnist")})), "marketplace://name/mnits")
    assert (raised.value.code, raised.value.known) == ("no-such-definition", ("mnist",))


@pytest.mark.parametrize(
    ("files", "reference", "meant"),
    [
        ({"a": {"version": "'1.2'"}, "b": {"version": "'1.10'"}}, "mnist", "b"),
        ({"a": {"version": "'1.2'"}, "b": {"version": "'1.10'"}}, "mnist@1.2", "a"),
        ({"a": {"version": "1.2"}}, "mnist@1.2", "a"),
        ({"a": {"version": "'1.2'"}}, "mnist@1.20", "no-such-definition"),
        ({"a": {}}, "mnist@1.2", "no-such-definition"),
        ({"a": {}, "b": {}}, "mnist", "ambiguous-definition"),
        ({"a": {"version": "'1.2'"}, "b": {"version": "'1.2'"}}, "mnist@1.2", "ambiguous-definition"),
        ({"a": {"version": "'1.2'"}, "b": {"version": "'1.2.0'"}}, "mnist", "ambiguous-definition"),
        ({"a": {"version": "'1.2'"}, "b": {"version": "'final'"}}, "mnist", "ambiguous-definition"),
        ({"a": {"version": "'1.2'"}, "b": {}}, "mnist", "ambiguous-definition"),
        ({"a": {"type": "data"}, "b": {"type": "script"}}, "mnist", "ambiguous-definition"),
    ],
)
def test_a_version_is_the_one_asked_for_or_the_highest(
    tmp_path: Path, files: Mapping[str, Mapping[str, str]], reference: str, meant: str
) -> None:
    written = {f"{name}.yaml": text("mnist", **fields) for name, fields in files.items()}
    found = library(folder_source(tmp_path, written))
    if meant in files:
        assert find(found, f"marketplace://name/{reference}").file.origin == f"team:{meant}.yaml"
    else:
        assert code_of(found, f"marketplace://name/{reference}") == meant


@pytest.mark.parametrize(
    ("kind", "meant"), [("data", "team:a.yaml"), ("script", "more:b.yaml"), ("name", "team:a.yaml")]
)
def test_a_type_is_the_one_asked_for_or_any(tmp_path: Path, kind: str, meant: str) -> None:
    team = folder_source(tmp_path / "team", {"a.yaml": text("mnist", type="data")})
    more = folder_source(tmp_path / "more", {"b.yaml": text("mnist", type="script")}, "more")
    assert find(library(team, more), f"marketplace://{kind}/mnist").file.origin == meant


@pytest.mark.parametrize("type_", ["script", ""])
def test_a_definition_of_another_type_is_not_meant(tmp_path: Path, type_: str) -> None:
    fields = {"type": type_} if type_ else {}
    found = library(folder_source(tmp_path, {"a.yaml": text("mnist", **fields)}))
    assert code_of(found, "marketplace://data/mnist") == "no-such-definition"


def test_a_digest_is_that_of_the_file(tmp_path: Path) -> None:
    files = {"a.yaml": text("mnist"), "b.yaml": text("mnist", title="other")}
    found = library(folder_source(tmp_path, files), job=tmp_path / "job.yaml")
    digest = found.file("team:b.yaml").digest
    assert find(found, f"marketplace://name/mnist@sha256:{digest}").file.origin == "team:b.yaml"
    assert find(found, f"./b.yaml@sha256:{digest}").file.digest == digest
    assert code_of(found, f"marketplace://name/mnist@sha256:{_DIGEST}") == "wrong-digest"
    assert code_of(found, f"./b.yaml@sha256:{_DIGEST}") == "wrong-digest"


def test_a_name_without_more_is_one_of_the_same_file_before_any_other(tmp_path: Path) -> None:
    both = f"- {{{text('both').strip()}}}".replace("\n", ", ").replace("{}", "{}")
    source = folder_source(tmp_path, {"a.yaml": both, "b.yaml": text("elsewhere")})
    found = library(folder_source(tmp_path / "first", {"c.yaml": text("both")}, "first"), source)
    above = found.file("team:a.yaml")
    assert find(found, "both", above).file.origin == "team:a.yaml"
    assert find(found, "both").file.origin == "first:c.yaml"
    assert find(found, "elsewhere", above).file.origin == "team:b.yaml"


def test_positions_in_a_definition_know_where_it_is_required(tmp_path: Path) -> None:
    found = find(library(folder_source(tmp_path, {"a.yaml": text("mnist")})), "marketplace://name/mnist")
    assert found.value.position.file == str(tmp_path / "a.yaml")
    assert found.value.position.way == (str(HERE),)


def test_the_same_reference_is_asked_once() -> None:
    network = Network({"https://example.org/a.yaml": text("mnist")})
    found = library(network=network)
    for _ in range(3):
        find(found, "https://example.org/a.yaml")
        find(found, "https://EXAMPLE.org:443/x/../a.yaml")
        code_of(found, "https://example.org/b.yaml")
    assert len(network.asked) == 2


def test_what_is_known_by_its_digest_is_not_asked_for_again(tmp_path: Path) -> None:
    network, url, content = Network(), "https://example.org/a.yaml", text("mnist").encode()
    digest = sha256(content).hexdigest()
    known = {(url, digest): content}

    def kept(url: str, digest: str) -> bytes | None:
        return known.get((url, digest))

    found = SourceLibrary([], Web(network, (), kept), lambda _: None, tmp_path / "job.yaml")
    assert find(found, f"{url}@sha256:{digest}").file.location == url
    assert not network.asked
    assert code_of(found, url) == "no-such-definition"
    assert code_of(found, f"{url}@sha256:{_DIGEST}") == "no-such-definition"
    assert code_of(found, f"{url}x@sha256:{digest}") == "no-such-definition"
    refused = SourceLibrary([], Web(network, (), kept), lambda _: "a policy says so")
    assert code_of(refused, f"{url}@sha256:{digest}") == "definition-refused"


def test_a_path_is_relative_to_the_job_file(tmp_path: Path) -> None:
    jobs = write(tmp_path / "jobs", {"here/a.yaml": text("mnist"), "../shared.yaml": text("other")})
    found = library(job=jobs / "job.yaml")
    for reference in ("here/a.yaml", "./here/a.yaml", "file:here/a.yaml", "here/../here/a.yaml"):
        definition = find(found, reference)
        assert (definition.file.origin, definition.file.own) == ("file:here/a.yaml", True)
        assert definition.value.position.file == str(jobs / "here/a.yaml")
    assert not find(found, "../shared.yaml").file.own
    assert find(found, f"file://{jobs}/here/a.yaml").file.own
    assert code_of(found, "./absent.yaml") == "no-such-definition"
    with pytest.raises(NoDefinition, match=r"did you mean .*jobs/../shared\.yaml\?"):
        find(found, "../shred.yaml")


def test_a_link_out_of_the_jobs_folder_is_not_the_jobs_own(tmp_path: Path) -> None:
    write(tmp_path, {"outside.yaml": text("mnist"), "jobs/inside.yaml": text("other")})
    (tmp_path / "jobs/link.yaml").symlink_to("../outside.yaml")
    found = library(job=tmp_path / "jobs/job.yaml", refused=[str((tmp_path / "outside.yaml").resolve())])
    assert code_of(found, "./link.yaml") == "definition-refused"
    assert code_of(found, "../outside.yaml") == "definition-refused"


def test_a_path_in_a_file_is_relative_to_that_file(tmp_path: Path) -> None:
    write(tmp_path, {"defs/a.yaml": text("a"), "defs/b.yaml": text("b"), "c.yaml": text("c")})
    found = library(job=tmp_path / "job.yaml")
    above = find(found, "defs/a.yaml").file
    assert [find(found, each, above).name for each in ("./b.yaml", "../c.yaml")] == ["b", "c"]


def test_without_a_job_file_a_path_leads_nowhere() -> None:
    assert code_of(library(), "./a.yaml") == "definition-unavailable"


def test_a_path_in_a_source_stays_in_its_folder(tmp_path: Path) -> None:
    files = {"a/one.yaml": text("one"), "a/two.yaml": text("two"), "three.yaml": text("three")}
    source = folder_source(tmp_path / "team", files)
    write(tmp_path, {"secret.yaml": text("secret")})
    (tmp_path / "team/link.yaml").symlink_to("../secret.yaml")
    found = library(source, job=tmp_path / "job.yaml")
    above = find(found, "marketplace://name/one").file
    assert [find(found, each, above).name for each in ("./two.yaml", "../three.yaml")] == ["two", "three"]
    codes = {
        each: code_of(found, each, above)
        for each in (
            "../../secret.yaml",
            "../../team/three.yaml",
            "file:two.yaml",
            f"{tmp_path}/secret.yaml",
            f"file://{tmp_path}/secret.yaml",
            "../link.yaml",
            "./absent.yaml",
        )
    }
    assert set(codes.values()) == {"wrong-reference", "no-such-definition"}
    assert [each for each, code in codes.items() if code == "no-such-definition"] == [
        "../link.yaml",
        "./absent.yaml",
    ]


@pytest.mark.parametrize(
    ("reference", "asked"),
    [
        ("./b.yaml", "https://example.org/x/b.yaml"),
        ("../b.yaml", "https://example.org/b.yaml"),
        ("../../../b.yaml", "https://example.org/b.yaml"),
        ("sub/b.yaml", "https://example.org/x/sub/b.yaml"),
        ("./http:b.yaml?q", "https://example.org/x/http%3Ab.yaml%3Fq"),
        ("./\\\\evil.example\\b.yaml", "https://example.org/x/%5C%5Cevil.example%5Cb.yaml"),
    ],
)
def test_a_path_in_a_file_from_a_url_stays_on_its_server(reference: str, asked: str) -> None:
    network = Network({"https://example.org/x/a.yaml": text("a"), asked: text("b")})
    found = library(network=network)
    above = find(found, "https://example.org/x/a.yaml").file
    assert find(found, reference, above).file.origin == asked


@pytest.mark.parametrize(
    "reference", ["file:b.yaml", "/etc/b.yaml", "file:///etc/b.yaml", "//evil.example/b"]
)
def test_a_file_from_a_url_reaches_nothing_of_this_machine(reference: str) -> None:
    found = library(network=Network({"https://example.org/a.yaml": text("a")}), job=Path("job.yaml"))
    above = find(found, "https://example.org/a.yaml").file
    assert code_of(found, reference, above) == "wrong-reference"


def test_one_of_several_definitions_in_a_file_is_named_by_a_fragment(tmp_path: Path) -> None:
    both = "- {name: a, plugin: cmd}\n- {name: b, plugin: cmd}\n"
    found = library(
        network=Network({"https://example.org/x": both}), job=write(tmp_path, {"x": both}) / "job"
    )
    for file in ("https://example.org/x", "./x"):
        assert [find(found, f"{file}#{name}").name for name in "ab"] == ["a", "b"]
        assert code_of(found, file) == "ambiguous-definition"
        assert code_of(found, f"{file}#c") == "no-such-definition"


def test_tokens_are_shown_below_the_url_of_their_source_only() -> None:
    urls = ["https://example.org/x/a.yaml", "https://example.org/x/y/b.yaml"]
    others = ["https://example.org/xy", "http://example.org/x/a", "https://example.org:8443/x/a.yaml"]
    others += ["https://example.org.evil.example/x/a.yaml", "https://example.org/x/%2e%2e/secret"]
    network = Network()
    web = Web(network, [("https://example.org/x/", lambda: "token")])
    for url in [*urls, *others]:
        with pytest.raises(NoDefinition):
            web.get(url)
    assert [token for _, token in network.asked] == ["token"] * len(urls) + [None] * len(others)


def test_a_url_is_a_source_of_all_that_is_in_its_file() -> None:
    network = Network({"https://example.org/x": "- {name: a, plugin: cmd}\n- {name: b, plugin: cmd}\n"})
    found = library(UrlSource("papers", "https://example.org/x", Web(network)), network=network)
    assert not network.asked
    assert [find(found, f"marketplace://name/{name}").name for name in "ab"] == ["a", "b"]
    assert code_of(found, "marketplace://name/c") == "no-such-definition"
    assert find(found, "https://example.org/x#a").name == "a"
    assert len(network.asked) == 1


def test_a_source_that_does_not_answer_is_not_passed_over(tmp_path: Path) -> None:
    class Dead(UrlSource):
        def find(self, *_: object) -> tuple[()]:
            raise NoDefinition("definition-unavailable", "no answer")

    found = library(
        Dead("papers", "https://example.org/x", Web(Network())),
        folder_source(tmp_path, {"a.yaml": text("mnist")}),
    )
    assert code_of(found, "marketplace://name/mnist") == "definition-unavailable"


def test_a_source_that_is_refused_is_not_asked(tmp_path: Path) -> None:
    network = Network({"https://example.org/x": text("mnist")})
    source = UrlSource("papers", "https://example.org/x", Web(network))
    team = folder_source(tmp_path, {"a.yaml": text("other")})
    found = library(source, team, network=network, refused=["https://example.org/x"])
    assert find(found, "marketplace://name/other").file.origin == "team:a.yaml"
    assert code_of(found, "marketplace://name/mnist") == "definition-refused"
    assert code_of(found, "https://example.org/x") == "definition-refused"
    with pytest.raises(NoDefinition):
        found.file("https://example.org/x")
    assert not network.asked


_LIBRARY = """
class Library:
    def find(self, name, above, required_by):
        {body}
    completed = rendered = resolved = find

@hookimpl
def pai_definitions(job, lock, secrets, refusal):
    return {returned}
"""


@pytest.mark.parametrize(
    ("body", "returned", "words"),
    [
        ("return 1 / 0", "Library()", "Definitions.find: ZeroDivisionError"),
        ("return 'text'", "Library()", "Definitions.find: TypeError: a value of the type str"),
        ("import sys; sys.exit(0)", "Library()", "called sys.exit(0)"),
        ("", "'text'", "hook pai_definitions: a value of the type str"),
    ],
)
def test_a_fault_of_a_library_is_blamed_on_its_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, returned: str, words: str
) -> None:
    find_plugins_in(tmp_path / "site", monkeypatch)
    monkeypatch.delitem(sys.modules, "odd_library", raising=False)
    code = _LIBRARY.format(body=body or "pass", returned=returned)
    Site(tmp_path).add("org.example.library", code, distribution="odd-library", hooks=["pai_definitions"])
    policy = tmp_path / "policy.yaml"
    entry = "{id: org.example.library, distribution: odd-library, versions: '*'}"
    policy.write_text(f"policyVersion: 1\nplugins: [{entry}]\n")
    with pytest.raises(InvalidInput) as raised:
        JobDefinitions(Host(read_policy(policy)), None)({}).find("a", None, Position("job.yaml", 1, 1))
    (problem,) = raised.value.problems
    assert problem.code == "plugin-error"
    assert "plugin org.example.library (odd-library 1.0), " in problem.message
    assert words in problem.message
