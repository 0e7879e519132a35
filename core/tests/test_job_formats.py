"""The door for job formats: a plugin, if it is allowed, reads a document that is no job of version 2."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_document.document import MAX_DEPTH, parse_document
from pai_document.problems import Position, Problem, Problems
from pai_document.value import Node, Source, Value, new_node
from pai_runtime.host import discovery, separate_process
from pai_runtime.host.document_json import node_from_json, node_to_json, problem_from_json, problem_to_json
from pai_runtime.host.host import Host
from pai_runtime.host.installed import plugin_codes
from pai_runtime.host.job_formats import in_version_2
from pai_runtime.host.policy import NO_POLICY, Policy, read_policy
from tests.legacy_jobs import legacy_job, written
from tests.plugin_factory import Site, policy_rule, write_policy
from tests.support import job, write_job

FORMATS = "from pai_runtime.plugin.job_format import InvalidInput, Problem, new_node\n"
READS = """
@hookimpl
def pai_read_job(document, problems):
    place = document.get("brief").node
    problems.add(Problem("brief", "a brief job", document.position, severity="note"))
    resources = {"cpu": 1, "memoryMB": 100, "gpu": 0}
    worker = {"dockerImage": "image", "resourcePerInstance": resources, "commands": [place]}
    return type(document)(new_node(document.node, {
        "protocolVersion": 2, "name": "brief", "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "image"}],
        "taskRoles": {"worker": worker},
    }))
"""
"""A format in which a job is one command."""


def job_format(field: str) -> dict[str, Any]:
    """The fields of the manifest of a format whose documents have this field."""
    return {"hooks": ["pai_read_job"], "jobFormat": {"type": "object", "required": [field]}}


def read(text: str, host: Host) -> tuple[Value | None, list[tuple[str, str]]]:
    """The job in version 2, if it can be read, and the codes of all problems with where they are."""
    problems, found = Problems(), None
    with problems.caught():
        found = in_version_2(parse_document(text, "old.yaml"), host, problems)
    return found, [(each.code, str(each.position)) for each in problems.in_order]


@pytest.mark.process
def test_a_format_of_a_third_party_is_read_checked_and_run(site: Site, tmp_path: Path) -> None:
    site.add("org.brief", FORMATS + READS, **job_format("brief"))
    path = write_job(tmp_path, "# mine\nbrief: echo $PAI_JOB_NAME > said\n")
    done = site.cli("run", path, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/worker/0/work/said").read_text() == "brief\n"
    assert f"{path}:2:1: note: a brief job" in done.stderr.splitlines()
    wrong = write_job(tmp_path, "# mine\n\nbrief: [1]\n", "wrong.yaml")
    (problem,) = json.loads(site.cli("validate", "--json", wrong).stdout)["problems"][1:]
    assert (problem["field"], problem["line"]) == ("taskRoles.worker.commands[0]", 3)


@pytest.mark.process
@pytest.mark.parametrize("document", [job(), job(brief="true"), {"taskRoles": {}}], ids=["2", "both", "none"])
def test_a_format_is_not_imported_for_what_is_not_in_it(
    site: Site, tmp_path: Path, document: dict[str, Any]
) -> None:
    site.add("org.brief", FORMATS + READS, **job_format("brief"))
    site.cli("validate", write_job(tmp_path, document))
    assert site.imported == set()


@pytest.mark.process
def test_a_format_that_the_policy_refuses_is_named_and_not_imported(site: Site, tmp_path: Path) -> None:
    made = site.add("org.brief", FORMATS + READS, **job_format("brief"))
    path, policy = write_job(tmp_path, "brief: 'true'\n"), write_policy(tmp_path)
    refused = json.loads(site.cli("validate", "--json", "--policy", policy, path).stdout)
    (problem,) = refused["problems"]
    assert (problem["code"], problem["line"]) == ("plugin-refused", 1)
    assert made.label in problem["message"]
    assert str(policy) in problem["message"]
    assert site.imported == set()
    write_policy(tmp_path, policy_rule(made))
    assert site.cli("validate", "--policy", policy, path).returncode == 0


@pytest.mark.process
def test_of_two_formats_for_a_document_the_one_that_is_allowed_reads_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("org.a", FORMATS + READS, **job_format("brief"))
    second = site.add("org.b", FORMATS + READS, **job_format("brief"))
    monkeypatch.syspath_prepend(site.folder)
    host = Host(read_policy(write_policy(tmp_path, policy_rule(second))))
    found, codes = read("brief: 'true'\n", host)
    assert found
    assert codes == [("brief", "old.yaml:1:1")]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (legacy_job(), ["no-such-plugin"]),
        ({"jobName": "old"}, ["no-such-plugin"]),
        ({"image": "i", "taskRoles": [{}]}, ["no-such-plugin"]),
        ({"name": "x", "taskRoles": {}}, []),
        ({}, []),
    ],
    ids=["whole", "name", "roles", "none", "empty"],
)
def test_a_job_of_version_1_needs_its_distribution_which_is_named(
    document: dict[str, Any], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [code for code in plugin_codes() if code.distribution != "pai-job-v1"]
    monkeypatch.setattr(discovery, "plugin_codes", lambda: others)
    problems = Problems()
    with problems.caught():
        root = parse_document(json.dumps(document), "old.json")
        assert in_version_2(root, Host(NO_POLICY), problems) is root
    assert [each.code for each in problems.in_order] == expected
    assert all("pip install pai-job-v1" in each.message for each in problems.in_order)


def test_two_distributions_with_one_format_are_both_named_and_none_is_imported(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [site.add(id_, FORMATS + READS, **job_format("brief")) for id_ in ("org.a", "org.b")]
    monkeypatch.syspath_prepend(site.folder)
    problems = Problems()
    with problems.caught():
        in_version_2(parse_document("brief: 'true'\n", "old.yaml"), Host(NO_POLICY), problems)
    (problem,) = problems.in_order
    assert problem.code == "plugin-refused"
    assert all(each.distribution in problem.message for each in made)
    assert site.imported == set()


def test_the_plugin_for_version_1_is_named_with_what_is_wrong_with_its_manifest(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_1 = "com.microsoft.pai.runtimeplugin.job_v1"
    made = site.add(version_1, distribution="pai-job-v1", files={"{package}/manifest.json": "{"})
    monkeypatch.syspath_prepend(site.folder)
    problems = Problems()
    with problems.caught():
        in_version_2(parse_document(json.dumps(legacy_job()), "old.json"), Host(NO_POLICY), problems)
    (problem,) = problems.in_order
    assert problem.code == "plugin-refused"
    assert made.label in problem.message
    assert str(made.package / "manifest.json") in problem.message


def test_the_policy_decides_about_version_1_too(tmp_path: Path) -> None:
    text = written(tmp_path, legacy_job()).read_text()
    assert read(text, Host(Policy("p", ()))) == (None, [("plugin-refused", "old.yaml:1:1")])


BAD = {
    "raises": ("1 / 0", "hook pai_read_job: ZeroDivisionError"),
    "leaves": ("import os; os._exit(0)", "ended the process with exit code 0"),
    "is-killed": ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    "exits": ("import sys; sys.exit(3)", "called sys.exit(3)"),
    "hangs": ("import time; time.sleep(600)", "timed out after 1 s"),
    "nothing": ("return None", "returned NoneType, not a Value"),
    "data": ("return document.data", "returned dict, not a Value"),
    "no-json": ("return type(document)(document.node.replaced({1, 2}))", "not JSON serializable"),
    "elsewhere": (
        "node = new_node(document.node, {}); node.end = 10**9; return type(document)(node)",
        "stands nowhere in the file",
    ),
    "empty": ("raise InvalidInput([])", "without an error"),
    "imports": (None, "import: ZeroDivisionError"),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A format of each kind of plugin that does not do what it should."""
    bad = Site(tmp_path_factory.mktemp("bad"))
    for name, (body, _) in BAD.items():
        hook = f"@hookimpl\ndef pai_read_job(document, problems):\n    {body}\n" if body else "1 / 0\n"
        bad.add(f"org.{name}", FORMATS + hook, **job_format(name))
    return bad


@pytest.mark.process
@pytest.mark.parametrize("name", BAD)
def test_a_format_that_fails_is_blamed_by_its_name(
    name: str, bad: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(separate_process, "LONGEST_CALL", 1 if name == "hangs" else 60)
    monkeypatch.syspath_prepend(bad.folder)
    problems = Problems()
    with problems.caught():
        in_version_2(parse_document(f"\n{name}: 1\n", "old.yaml"), Host(NO_POLICY), problems)
    (problem,) = problems.in_order
    assert (problem.code, str(problem.position)) == ("plugin-error", "old.yaml:2:1")
    assert f"plugin org.{name} (org-{name} 1.0)" in problem.message
    assert BAD[name][1] in problem.message


_FAULTS = {
    "no hook": {"hooks": ["pai_prerequisite"], "jobFormat": {}},
    "no format": {"hooks": ["pai_read_job"]},
    "no schema": {"hooks": ["pai_read_job"], "jobFormat": {"type": "nothing"}},
    "elsewhere": {"hooks": ["pai_read_job"], "jobFormat": {"$ref": "https://example.org/"}},
}


@pytest.mark.process
@pytest.mark.parametrize("fields", _FAULTS.values(), ids=_FAULTS)
def test_a_manifest_says_both_or_none_of_a_format(site: Site, fields: dict[str, Any]) -> None:
    site.add("org.brief", FORMATS + READS, **fields)
    rows = json.loads(site.cli("plugins", "list", "--json").stdout)
    (row,) = (each for each in rows if each["id"] == "org.brief")
    assert not row["allowed"]
    assert "jobFormat" in row["reason"]


# Between the processes


_TEXT = st.text("aé \n\"'", max_size=5)
_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(_TEXT, each, max_size=3),
)


def places(node: Node) -> Iterator[tuple[Any, ...]]:
    """All that a value, and what is in it, says of itself."""
    yield node.start, node.end, node.data, node.text, node.size, dict(node.keys)
    for key, child in node.children.items():
        yield (key,)
        yield from places(child)


@given(_DATA)
def test_a_document_is_the_same_after_the_way(data: Any) -> None:
    node = parse_document(json.dumps(data), "old.json").node
    assert list(places(node_from_json(json.loads(json.dumps(node_to_json(node))), node.source))) == list(
        places(node)
    )


_NUMBER = st.integers(-1, 4)
_INNER = st.lists(_NUMBER, max_size=2) | st.dictionaries(st.sampled_from("ab"), _NUMBER | st.none())
_ROW = st.lists(_NUMBER | st.none() | st.just("x") | _INNER, max_size=4) | st.tuples(
    st.integers(0, 3), st.integers(0, 3), _INNER, st.dictionaries(st.sampled_from("ab"), _NUMBER)
).map(list)
_ANSWERS = st.lists(_ROW | st.tuples(_NUMBER, _NUMBER, st.booleans(), st.just("x")).map(list)) | _INNER


@given(_ANSWERS)
def test_whatever_is_sent_is_a_document_in_the_file_or_an_error(answer: Any) -> None:
    source = Source("old.json", "abc")
    try:
        found = node_from_json(answer, source)
    except ValueError:
        return
    assert all(0 <= place[0] <= 3 and 0 <= place[1] <= 3 for place in places(found) if len(place) > 1)


def test_what_stands_in_many_places_is_sent_once() -> None:
    text = "x" * 100_000
    shared = Node(Source("f", ""), 0, 0, text, text)
    sent = node_to_json(new_node(shared, {str(number): [shared] for number in range(100)}))
    assert len(json.dumps(sent)) < 3 * len(text)
    assert node_from_json(sent, shared.source).data["99"] == [text]


@pytest.mark.parametrize(("width", "levels"), [(1, MAX_DEPTH), (2, 19)])
def test_a_document_cannot_become_deeper_or_larger_than_one_may_be(width: int, levels: int) -> None:
    rows: list[Any] = [[0, 0, "x", "x"]]
    rows += [[0, 0, [level] * width] for level in range(levels)]
    assert node_from_json(rows[:-1], Source("f", "")).size < 1_000_000
    with pytest.raises(ValueError, match="more values"):
        node_from_json([*rows, [0, 0, [levels] * width]], Source("f", ""))


_PROBLEM = Problem("c", "m", Position("f", 1, 2), "x", found="f", severity="note")


@pytest.mark.parametrize(
    "problem", [_PROBLEM, Problem("c", "m"), Problem("c", "m" * 5000)], ids=["", "-", "long"]
)
def test_a_problem_is_the_same_after_the_way(problem: Problem) -> None:
    again = problem_from_json(json.loads(json.dumps(problem_to_json(problem))))
    assert (again, again.to_json()) == (problem, problem.to_json())
    assert list(vars(again)) == list(vars(problem))


@pytest.mark.parametrize(
    "change",
    [{"severity": "fatal"}, {"code": 1}, {"found": []}, {"position": ["f", 1]}, {"more": "x"}],
    ids=str,
)
def test_what_is_no_problem_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be understood"):
        problem_from_json({**problem_to_json(_PROBLEM), **change})
