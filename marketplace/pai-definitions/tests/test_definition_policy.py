"""The policy for shared prerequisites: where they may come from, and which plugins they may use."""

from collections.abc import Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pai_document.problems import InvalidInput, Problem, Problems
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.host import Host
from pai_runtime.host.locations import canonical, is_below
from pai_runtime.host.policy import NO_POLICY, read_policy
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.planning import JobFiles, plan_job
from tests.definition_sources import write
from tests.fault_server import FaultServer, Reply
from tests.plugin_factory import Site, policy_rule, write_policy
from tests.small_cluster import find_plugins_in
from tests.support import job, write_job

CMD = "com.microsoft.pai.runtimeplugin.cmd"
STORAGE = "com.microsoft.pai.runtimeplugin.storage"
DEFINITIONS = "com.microsoft.pai.runtimeplugin.definitions"
PLUGINS = [
    {"id": DEFINITIONS, "distribution": "pai-definitions", "versions": "*"},
    {"id": CMD, "distribution": "pai-cmd", "versions": "*"},
    {"id": STORAGE, "distribution": "pai-storage", "versions": "*"},
]
HELLO = "plugin: cmd\nplugin_params: {callbacks: [{event: taskStarts, commands: [echo hello]}]}\n"
EMBEDDED = "marketplace://name/debug_hook"


def _policy(folder: Path, *definitions: dict[str, Any] | None) -> Host:
    """The host under a policy for each of the sections; None is one without the section."""
    policies = []
    for number, section in enumerate(definitions):
        document = {"policyVersion": 1, "plugins": PLUGINS, **({"definitions": section} if section else {})}
        path = folder / f"policy{number}.yaml"
        path.write_text(yaml.safe_dump(document))
        policies.append(read_policy(path))
    return Host(NO_POLICY, *policies)


def _problems(folder: Path, host: Host, *required: str, **extras: Any) -> Sequence[Problem]:
    """What is wrong with a job that requires these."""
    problems = Problems()
    document = job()
    document["taskRoles"]["worker"]["prerequisites"] = list(required)
    path = write_job(folder, {**document, **extras})
    with problems.caught():
        files = JobFiles(path, open_definitions=JobDefinitions(host, path))
        plan_job(files, host, lambda job: example_placement(job, "alice"), problems)
    return problems.in_order


def _codes(problems: Sequence[Problem]) -> list[str]:
    return [each.code for each in problems if each.severity == "error"]


@pytest.fixture(autouse=True)
def _configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a source ``team`` in the folder ``team``."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources = {"sources": [{"name": "team", "folder": str(tmp_path / "team")}]}
    files = {"team/hello.yaml": f"name: hello\n{HELLO}", "jobs/own.yaml": f"name: own\n{HELLO}"}
    write(tmp_path, {**files, "config/pai-runtime/marketplace.yaml": yaml.safe_dump(sources)})


@pytest.mark.parametrize(
    ("sections", "allowed"),
    [
        ([], ["embedded", "team"]),
        ([None], []),
        ([{"sources": []}], []),
        ([{"sources": ["embedded"]}], ["embedded"]),
        ([{"sources": ["{team}"]}], ["team"]),
        ([{"sources": ["{team}/.."]}], ["team"]),
        ([{"sources": ["/"]}], ["team"]),
        ([{"sources": ["{team}/hello.yaml"]}], []),
        ([{"sources": ["{team}x", "https://example.org/"]}], []),
        ([{"sources": ["embedded", "{team}"]}, {"sources": ["{team}"]}], ["team"]),
        ([{"sources": ["embedded"]}, {"sources": ["{team}"]}], []),
        ([{"sources": ["embedded"]}, None], []),
    ],
)
def test_every_policy_must_allow_where_a_definition_comes_from(
    tmp_path: Path, sections: Sequence[dict[str, Any] | None], allowed: Sequence[str]
) -> None:
    team = str(tmp_path / "team")
    sections = [
        section and {"sources": [source.replace("{team}", team) for source in section["sources"]]}
        for section in sections
    ]
    host = _policy(tmp_path, *sections)
    for source, reference in (("embedded", EMBEDDED), ("team", "marketplace://name/hello")):
        codes = _codes(_problems(tmp_path / "jobs", host, reference))
        assert codes == ([] if source in allowed else ["definition-refused"])


def test_a_refusal_names_the_policy_and_the_location(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path / "jobs", _policy(tmp_path, None), f"file://{tmp_path}/team/hello.yaml")
    assert (problem.code, problem.field) == ("definition-refused", "taskRoles.worker.prerequisites[0]")
    assert f"policy {tmp_path}/policy0.yaml " in problem.message
    assert f" {tmp_path}/team/hello.yaml;" in problem.message


def test_files_of_the_job_itself_are_not_shared(tmp_path: Path) -> None:
    host = _policy(tmp_path, {"sources": [], "plugins": []})
    assert not _codes(_problems(tmp_path / "jobs", host, "./own.yaml"))
    (tmp_path / "jobs/own.yaml").write_text(f"name: own\nrequire: [marketplace://name/hello]\n{HELLO}")
    assert _codes(_problems(tmp_path / "jobs", host, "./own.yaml")) == ["definition-refused"]


@pytest.mark.parametrize(
    ("plugins", "allowed"), [(None, True), ([CMD], True), ([], False), ([STORAGE], False), (["cmd"], False)]
)
def test_a_shared_definition_may_use_the_plugins_that_are_for_it(
    tmp_path: Path, plugins: Sequence[str] | None, *, allowed: bool
) -> None:
    section = {"sources": ["embedded"], **({} if plugins is None else {"plugins": plugins})}
    problems = _problems(tmp_path / "jobs", _policy(tmp_path, section), EMBEDDED, "./own.yaml")
    assert _codes(problems) == ([] if allowed else ["plugin-refused"])
    if not allowed:
        (problem,) = problems
        assert problem.position
        assert problem.position.file == "embedded:debug_hook.yaml"
        assert problem.position.way


def test_the_plugin_for_the_storages_of_a_shared_definition_is_one_of_it(tmp_path: Path) -> None:
    (tmp_path / "team/hello.yaml").write_text("name: hello\nrequireStorages: [{name: confignfs}]\n")
    section = {"sources": [str(tmp_path / "team")], "plugins": [CMD]}
    found = _problems(tmp_path / "jobs", _policy(tmp_path, section), "marketplace://name/hello")
    assert _codes(found) == ["plugin-refused"]


def test_a_use_whose_failures_are_ignored_is_left_out_if_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "team/hello.yaml").write_text(f"name: hello\nfailurePolicy: ignore\n{HELLO}")
    section = {"sources": [str(tmp_path / "team")], "plugins": []}
    found = _problems(tmp_path / "jobs", _policy(tmp_path, section), "marketplace://name/hello")
    assert [(each.code, each.severity) for each in found] == [("plugin-refused", "warning")]


def test_an_allowed_server_does_not_lead_to_one_that_is_not(tmp_path: Path) -> None:
    with (
        FaultServer(Reply(body=f"name: hello\n{HELLO}".encode())) as other,
        FaultServer(Reply(302, headers={"Location": f"{other.url}/hello.yaml"})) as server,
    ):
        url = f"{server.url}/hello.yaml"
        for sources, codes in (([server.url], ["definition-refused"]), ([server.url, other.url], [])):
            host = _policy(tmp_path, {"sources": sources})
            assert _codes(_problems(tmp_path / "jobs", host, url)) == codes


@pytest.mark.parametrize(
    ("section", "code"),
    [
        ("[]", "wrong-type"),
        ("{}", "missing-field"),
        ("{sources: embedded}", "wrong-type"),
        ("{sources: [team]}", "wrong-value"),
        ("{sources: [./relative]}", "wrong-value"),
        ("{sources: ['ftp://example.org/']}", "wrong-value"),
        ("{sources: ['https://[']}", "wrong-url"),
        ("{sources: ['https://user@example.org/']}", "wrong-url"),
        ("{sources: [], plugins: cmd}", "wrong-type"),
        ("{sources: [], more: 1}", "unknown-field"),
    ],
)
def test_a_section_with_a_fault_is_refused(tmp_path: Path, section: str, code: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"policyVersion: 1\nplugins: []\ndefinitions: {section}\n")
    with pytest.raises(InvalidInput) as raised:
        read_policy(path)
    assert [(each.code, each.position and each.position.line) for each in raised.value.problems] == [
        (code, 3)
    ]


def test_a_plugin_for_definitions_that_the_policy_does_not_list_is_told(tmp_path: Path) -> None:
    misspelt = CMD.replace("cmd", "cmdd")
    host = _policy(tmp_path, {"sources": [], "plugins": [CMD, misspelt]})
    found = [(each.code, each.field, each.suggestion) for each in host.unmatched_entries]
    assert found == [("unmatched-entry", "definitions.plugins[1]", CMD)]


def _without_the_plugin(folder: Path) -> Host:
    policy = folder / "policy.yaml"
    others = [each for each in PLUGINS if each["id"] != DEFINITIONS]
    policy.write_text(yaml.safe_dump({"policyVersion": 1, "plugins": others}))
    return Host(NO_POLICY, read_policy(policy))


def test_without_the_plugin_that_finds_them_each_reference_says_why_it_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = _problems(tmp_path, _without_the_plugin(tmp_path), EMBEDDED, "other.yaml")
    monkeypatch.setattr(Host, "installed", {})
    missing = _problems(tmp_path, Host(NO_POLICY), EMBEDDED, "other.yaml")
    for found, why in ((refused, "policy.yaml"), (missing, "pip install pai-definitions")):
        unavailable = [each for each in found if each.code == "definition-unavailable"]
        assert [each.found for each in unavailable] == [f"'{EMBEDDED}'", "'other.yaml'"]
        assert all(DEFINITIONS in each.message and why in each.message for each in unavailable)


@pytest.mark.parametrize(
    ("name", "body", "code", "words"),
    [
        ("raises", "1 / 0", "plugin-error", "hook pai_definitions: ZeroDivisionError"),
        ("exits", "import sys; sys.exit(0)", "plugin-error", "called sys.exit(0)"),
        ("nothing", "return None", "definition-unavailable", "finds none here"),
        ("imports", None, "plugin-error", "import: ZeroDivisionError"),
    ],
)
def test_what_cannot_open_definitions_is_blamed_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str | None, code: str, words: str
) -> None:
    hook = f"@hookimpl\ndef pai_definitions(job):\n    {body}\n" if body else "1 / 0\n"
    find_plugins_in(tmp_path / "site", monkeypatch)
    made = Site(tmp_path).add(f"a.{name}", hook, hooks=["pai_definitions"])
    only_it = Host(read_policy(write_policy(tmp_path, policy_rule(made))))  # there is another one
    problem = next(each for each in _problems(tmp_path, only_it, EMBEDDED) if each.code == code)
    assert made.label in problem.message
    assert words in problem.message


@pytest.mark.parametrize(
    ("location", "prefix", "below"),
    [
        ("/srv/a", "/srv", True),
        ("/srv", "/srv", True),
        ("/srv2/a", "/srv", False),
        ("/", "/srv", False),
        ("embedded", "embedded", True),
        ("embedded", "/embedded", False),
        ("/embedded", "embedded", False),
        ("https://a.org/x", "https://a.org", True),
        ("https://a.org/x", "https://a.org/", True),
        ("https://a.org/x/y", "https://a.org/x", True),
        ("https://a.org/x?y", "https://a.org/x", True),
        ("https://A.org:443/x", "https://a.org/", True),
        ("https://a.org/xy", "https://a.org/x", False),
        ("http://a.org/x", "https://a.org/", False),
        ("https://a.org:8443/x", "https://a.org/", False),
        ("https://a.org.evil.example/x", "https://a.org", False),
        ("https://b.a.org/x", "https://a.org", False),
        ("https://evil.example/https://a.org/", "https://a.org/", False),
        ("https://a.org/x/../y", "https://a.org/x", False),
        ("https://a.org/x/%2e%2e/y", "https://a.org/x", False),
        ("https://a.org/x/..;/y", "https://a.org/x", False),
        ("https://a.org/x/%2e.%3bv=1/y", "https://a.org/x", False),
        ("https://a.org/x/a..;v=1/y", "https://a.org/x", True),
        ("https://a.org/x/.%2E/y", "https://a.org/x", False),
        ("https://a.org/x/..%2fy", "https://a.org/x", False),
        ("https://a.org/x/..%5cy", "https://a.org/x", False),
        ("https://a.org/x\\..\\y", "https://a.org/x", False),
        ("https://[::1]/x", "https://[::1]/", True),
    ],
)
def test_what_is_below_a_location_is_so_by_whole_segments(location: str, prefix: str, *, below: bool) -> None:
    def spelt(text: str) -> str:
        return canonical(text) if "://" in text[:8] else text

    assert is_below(spelt(location), spelt(prefix)) == below


_SEGMENTS = st.lists(
    st.sampled_from(["a", "..", ".", "", "%2e%2e", "..;", "..%2f..", "a\\..", "%2E."]), max_size=6
)


@given(_SEGMENTS)
def test_no_path_leads_out_of_a_url_that_is_allowed(segments: list[str]) -> None:
    url = canonical("https://a.org/allowed/" + "/".join(segments))
    assert canonical(url) == url
    if is_below(url, "https://a.org/allowed"):
        path = unquote(url.removeprefix("https://a.org")).replace("\\", "/").replace(";", "")
        assert f"{normpath(path)}/".startswith("/allowed/")
