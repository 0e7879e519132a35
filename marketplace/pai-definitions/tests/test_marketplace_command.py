"""`pai-runtime marketplace`: what there is, what it does, and a job that uses it."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_definitions.marketplace.source_entry import with_source, without_source
from pai_definitions.marketplace.yaml_line import yaml_line
from pai_document.document import parse_document
from pai_runtime import cli as command_line
from tests.fault_server import FaultServer, Reply
from tests.marketplace_server import MarketplaceServer, item
from tests.support import PROGRAM, job, until


def script(name: str, command: str = "true", **fields: Any) -> dict[str, Any]:
    """A definition that runs a command before the task."""
    parameters = {"callbacks": [{"event": "taskStarts", "commands": [command]}]}
    return {"name": name, "type": "script", "plugin": "cmd", "plugin_params": parameters, **fields}


MNIST = script(
    "mnist",
    "mkdir -p {{ path }} {{ depth }}",
    type="data",
    version="1.2",
    title="MNIST",
    summary="Handwritten digits.",
    description="Ten thousand\nand more.",
    usage="Say where it goes.",
    contributor="alice",
    require=["wget", {"name": "share", "template_variables": {"at": "/mnt/a"}}],
    requireStorages=[{"name": "data", "mountPath": "/mnt/data"}],
    template_variables=[
        {"name": "path", "type": "string", "description": "Where it goes."},
        {"name": "depth", "type": "integer", "default": 3, "description": "How deep."},
    ],
)
WGET = script("wget", summary="The program wget.")
SHARE = script("share", "ls {{ at }}", template_variables=["at"], require=["wget"])


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has configured nothing yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PAI_RUNTIME_POLICY", raising=False)


class Ran:
    """What a command has printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *args: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["pai-runtime", *args])
            self.status = command_line.main()
        self.out, self.err = capsys.readouterr()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def marketplace(capsys: pytest.CaptureFixture[str], *args: str) -> Ran:
    return Ran(capsys, "marketplace", *args)


def folder(name: str, *definitions: dict[str, Any] | str) -> Path:
    """A folder of definitions, configured as a source of this name after those that there are."""
    path = Path(name)
    path.mkdir()
    for number, each in enumerate(definitions):
        text = each if isinstance(each, str) else yaml.safe_dump(each, sort_keys=False)
        (path / f"{number}.yaml").write_text(text, "utf-8")
    configuration = Path("config/pai-runtime/marketplace.yaml")
    configuration.parent.mkdir(parents=True, exist_ok=True)
    text = configuration.read_text("utf-8") if configuration.exists() else "sources:\n"
    configuration.write_text(f"{text}  - {{name: {name}, folder: {path.absolute()}}}\n", "utf-8")
    return path


def test_the_list_has_each_definition_of_each_source(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST, WGET)
    ran = marketplace(capsys, "list")
    assert (ran.status, ran.err) == (0, "")
    assert ran.lines[0].split() == ["NAME", "TYPE", "VERSION", "SOURCE", "SUMMARY"]
    rows = {line.split()[0]: line.split() for line in ran.lines[1:]}
    assert rows["mnist"] == ["mnist", "data", "1.2", "team", "Handwritten", "digits."]
    assert rows["wget"][:3] == ["wget", "script", "team"]
    assert "embedded" in rows["debug_hook"]
    assert list(rows) == sorted(rows)


def test_the_list_is_narrowed_by_type_and_by_source(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST, WGET)
    by_type = marketplace(capsys, "list", "--type", "data", "--source", "team", "--json").data
    assert [each["name"] for each in by_type] == ["mnist"]
    by_source = marketplace(capsys, "list", "--source", "team", "--json").data
    assert [each["name"] for each in by_source] == ["mnist", "wget"]
    misspelt = marketplace(capsys, "list", "--source", "teem")
    assert (misspelt.status, misspelt.out) == (2, "")
    assert "did you mean team?" in misspelt.err


def test_a_definition_that_an_earlier_source_has_too_is_hidden_by_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder("first", WGET)
    folder("second", {**WGET, "summary": "Another."})
    rows = {each["source"]: each for each in marketplace(capsys, "search", "wget", "--json").data}
    assert rows["first"]["hiddenBy"] is None
    assert rows["second"]["hiddenBy"] == "first"
    assert "second (hidden by first)" in marketplace(capsys, "list").out
    assert marketplace(capsys, "show", "wget", "--json").data["summary"] == WGET["summary"]
    assert marketplace(capsys, "show", "wget", "--source", "second", "--json").data["summary"] == "Another."


def test_what_cannot_be_read_is_reported_and_the_rest_listed(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST, "- name: [", {**WGET, "plugin": 3})
    gone = folder("gone")
    gone.rmdir()
    ran = marketplace(capsys, "list")
    assert ran.status == 0
    assert "mnist" in ran.out
    assert "team/1.yaml:1" in ran.err
    assert "team/2.yaml:" in ran.err
    assert "gone" in ran.err
    assert all(": warning: " in line for line in ran.err.splitlines())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["HANDWRITTEN"], True),  # in the summary
        (["mni", "digits"], True),  # in the name, and in the summary
        (["thousand"], True),  # in the description
        (["digits", "letters"], False),
    ],
)
def test_a_search_finds_what_has_every_word(
    capsys: pytest.CaptureFixture[str], words: list[str], *, found: bool
) -> None:
    folder("team", MNIST)
    ran = marketplace(capsys, "search", *words, "--source", "team", "--json")
    assert (ran.status, bool(ran.data)) == (0, found)


def test_a_search_for_a_misspelt_name_suggests_it(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST)
    ran = marketplace(capsys, "search", "mnsit")
    assert (ran.status, ran.lines) == (0, ["no definitions found; did you mean mnist?"])


def test_texts_of_others_are_shown_as_they_are_and_in_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    long = "wide 数据集 \x1b[31m\u202e\n" + "word " * 2000
    folder("team", {**WGET, "summary": long}, MNIST)
    ran = marketplace(capsys, "list", "--source", "team")
    assert len(ran.lines) == 3
    assert max(map(len, ran.lines)) < 300
    (row,) = (line for line in ran.lines if line.startswith("wget"))
    assert "wide 数据集 \\x1b[31m\\u202e word" in row
    shown = marketplace(capsys, "show", "wget").out
    assert shown.isprintable() or "\x1b" not in shown
    assert marketplace(capsys, "list", "--source", "team", "--json").data[1]["summary"] == long


def test_a_thousand_definitions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    documents = [{**WGET, "name": f"tool-{number:04}"} for number in range(1000)]
    folder("team", yaml.safe_dump(documents, sort_keys=False))
    assert len(marketplace(capsys, "list", "--source", "team").lines) == 1001


def test_show_says_all_that_a_person_needs_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    path = folder("team", MNIST, WGET, SHARE)
    ran = marketplace(capsys, "show", "mnist")
    assert (ran.status, ran.err) == (0, "")
    digest = marketplace(capsys, "show", "mnist", "--json").data["digest"]
    assert ran.lines == [
        "mnist (data) 1.2",
        "  MNIST",
        "  reference: marketplace://name/mnist",
        "  from: team:0.yaml",
        f"  at: {path.absolute()}/0.yaml",
        f"  digest: {digest}",
        "  by: alice",
        "  plugin: cmd",
        "  summary:",
        "    Handwritten digits.",
        "  description:",
        "    Ten thousand",
        "    and more.",
        "  variables:",
        "    path: string, required",
        "      Where it goes.",
        "    depth: integer, default 3",
        "      How deep.",
        "  requires:",
        "    wget",
        "    share (at: /mnt/a)",
        "      wget",
        "  storages:",
        "    name: data, mountPath: /mnt/data",
        "  usage:",
        "    Say where it goes.",
    ]


def test_show_as_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST, WGET)
    shown = marketplace(capsys, "show", "marketplace://data/mnist@1.2", "--json").data
    assert shown["variables"][1] == {
        "name": "depth",
        "type": "integer",
        "required": False,
        "default": 3,
        "description": "How deep.",
    }
    wget, share = shown["requires"]
    assert wget == {"reference": "wget", "templateVariables": {}, "problem": None, "requires": []}
    assert share["templateVariables"] == {"at": "/mnt/a"}
    assert "share" in share["problem"]


def test_what_requires_itself_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", {**WGET, "require": ["other"]}, {**WGET, "name": "other", "require": ["wget", "other"]})
    requires = marketplace(capsys, "show", "wget", "--json").data["requires"]
    assert [each["reference"] for each in requires] == ["other"]
    assert [each["reference"] for each in requires[0]["requires"]] == ["wget", "other"]
    assert requires[0]["requires"][0]["requires"] == []


def test_show_tells_several_of_one_name_apart(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST, {**MNIST, "version": "1.10"})
    shown = marketplace(capsys, "show", "mnist", "--json").data
    assert shown["version"] == "1.10"
    references = ["marketplace://data/mnist@1.10", "marketplace://data/mnist@1.2"]
    assert [each["reference"] for each in shown["named"]] == references
    assert "marketplace://data/mnist@1.2" in marketplace(capsys, "show", "mnist").out


def test_a_definition_is_shown_by_the_path_of_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("here.yaml").write_text(yaml.safe_dump(WGET), "utf-8")
    assert marketplace(capsys, "show", "./here.yaml", "--json").data["name"] == "wget"


@pytest.mark.parametrize("command", ["show", "use"])
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("mnsit", "did you mean mnist?"),
        ("marketplace://name/mnist@9", "1.2"),
        ("marketplace://nothing", "marketplace://name/NAME"),
        ("./nothing.yaml", "nothing.yaml"),
    ],
)
def test_what_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], command: str, asked: str, text: str
) -> None:
    folder("team", MNIST)
    ran = marketplace(capsys, command, asked)
    assert (ran.status, ran.out) == (2, "")
    assert text in ran.err


def valid(capsys: pytest.CaptureFixture[str], ran: Ran) -> dict[str, Any]:
    """The job that was printed, which `validate` accepts without a word."""
    assert (ran.status, ran.err) == (0, "")
    Path("job.yaml").write_text(ran.out, "utf-8")
    checked = Ran(capsys, "validate", "job.yaml", "--strict")
    assert (checked.status, checked.err) == (0, "")
    content: dict[str, Any] = yaml.safe_load(ran.out)
    return content


@pytest.mark.process
def test_use_prints_a_valid_job_that_says_what_has_to_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST, WGET, SHARE)
    ran = marketplace(capsys, "use", "mnist")
    job = valid(capsys, ran)
    assert job["parameters"] == {"path": "/CHANGE-ME"}
    (use,) = job["taskRoles"]["worker"]["prerequisites"]
    assert use == {
        "name": "marketplace://name/mnist",
        "template_variables": {"path": "<% $parameters.path %>"},
    }
    assert "  path: /CHANGE-ME  # required: change it; Where it goes." in ran.lines
    assert "          # depth: 3  # How deep." in ran.lines
    assert "# Say where it goes." in ran.lines
    assert marketplace(capsys, "use", "mnist").out == ran.out


@pytest.mark.process
def test_use_gives_variables_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", MNIST, WGET, SHARE)
    ran = marketplace(capsys, "use", "mnist", "--var", "path=/a b: c", "--var", "depth=5")
    job = valid(capsys, ran)
    assert job["parameters"] == {"path": "/a b: c"}
    (use,) = job["taskRoles"]["worker"]["prerequisites"]
    assert use["template_variables"]["depth"] == 5
    assert "required" not in ran.out
    assert valid(capsys, marketplace(capsys, "use", "mnist", "--var", "path="))["parameters"] == {"path": ""}


@pytest.mark.process
def test_use_of_a_definition_without_variables_is_its_reference(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", WGET)
    job = valid(capsys, marketplace(capsys, "use", "wget"))
    assert job["taskRoles"]["worker"]["prerequisites"] == ["marketplace://name/wget"]


@pytest.mark.process
@pytest.mark.parametrize("kind", ["string", "number", "integer", "boolean", "list", "mapping"])
def test_a_variable_of_each_type_has_a_value_that_fits(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    command = "true {{ it | length }}" if kind in ("list", "mapping") else "true {{ it }}"
    folder("team", script("wget", command, template_variables=[{"name": "it", "type": kind}]))
    valid(capsys, marketplace(capsys, "use", "wget"))


@pytest.mark.process
def test_a_variable_that_is_named_like_a_secret_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", script("wget", "curl -u {{ apiKey }}", template_variables=["apiKey"]))
    job = valid(capsys, marketplace(capsys, "use", "wget"))
    assert job["secrets"] == {"apiKey": "CHANGE-ME"}
    assert "parameters" not in job


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("pth=/a", "did you mean path?"),
        ("depth=deep", "depth"),
        ("path=[", "--var path"),
    ],
)
def test_a_variable_that_is_given_wrongly_is_told(
    capsys: pytest.CaptureFixture[str], given: str, text: str
) -> None:
    folder("team", MNIST, WGET, SHARE)
    ran = marketplace(capsys, "use", "mnist", "--var", given)
    assert (ran.status, ran.out) == (1, "")
    assert text in ran.err


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=5,
)


@given(DATA)
@settings(max_examples=50)
def test_a_value_written_in_yaml_is_read_as_itself(data: Any) -> None:
    assert "\n" not in yaml_line(data)
    if "\\u0000" not in yaml_line(data):
        assert parse_document(f"key: {yaml_line(data)}  # comment", "").data == {"key": data}


ENTRY = {"name": "new", "folder": "/a b"}
ADDED = "  - name: new\n    folder: /a b\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"sources:\n{ADDED}"),
        ("# mine", f"# mine\nsources:\n{ADDED}"),
        ("sources: []  # none\n", f"sources:   # none\n{ADDED}"),
        ("sources:\n", f"sources:\n{ADDED}"),
        (
            "sources:\n  - name: a  # mine\n    url: b\n  # the end\n",
            f"sources:\n  - name: a  # mine\n    url: b\n{ADDED}  # the end\n",
        ),
        ("sources:\n  - {name: a}", f"sources:\n  - {{name: a}}\n{ADDED}"),
        ("sources:\n- name: a\n", "sources:\n- name: a\n- name: new\n  folder: /a b\n"),
        ("sources: [{name: a}]\n", None),
        ("- name: a\n", None),
        ("other: 1\n", None),
    ],
)
def test_a_source_is_added_to_the_text_and_nothing_else_changes(text: str, expected: str | None) -> None:
    assert with_source(text, "", ENTRY) == expected


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        (
            "sources:\n- name: a\n  folder: /a\n- name: b\n  url: x  # why\n",
            0,
            "sources:\n- name: b\n  url: x  # why\n",
        ),
        (
            "sources:\n- name: a\n  folder: /a\n- name: b\n  url: x  # why",
            1,
            "sources:\n- name: a\n  folder: /a\n",
        ),
        (
            "# mine\nsources:  # all\n  # one\n  - {name: a, folder: /a}\n# end\n",
            0,
            "# mine\nsources: []  # all\n  # one\n# end\n",
        ),
        ("sources: [{name: a, folder: /a}, {name: b, folder: /b}]\n", 0, None),
        ("sources: [{name: a, folder: /a}]\n", 0, None),
        ("sources:\n- name: a\n  token: {file:\n    x}\n- name: b\n", 0, "sources:\n- name: b\n"),
    ],
)
def test_a_source_is_removed_from_the_text_and_nothing_else_changes(
    text: str, index: int, expected: str | None
) -> None:
    assert without_source(text, "", index) == expected


def test_what_was_added_can_be_removed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder("team", WGET)
    configuration = tmp_path / "config/pai-runtime/marketplace.yaml"
    before = configuration.read_bytes()
    Path("defs").mkdir()
    Path("defs/wget.yaml").write_text(yaml.safe_dump(WGET), "utf-8")
    assert marketplace(capsys, "add", "defs").status == 0
    ran = marketplace(capsys, "remove", "def")
    assert (ran.status, ran.out) == (2, "")
    assert "defs" in ran.err
    assert marketplace(capsys, "remove", "defs").status == 0
    assert configuration.read_bytes() == before
    assert marketplace(capsys, "remove", "defs").status == 2
    assert marketplace(capsys, "remove", "team").status == 0
    assert marketplace(capsys, "list").status == 0
    assert marketplace(capsys, "add", "defs").status == 0


def test_what_is_added_can_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Path("defs").mkdir()
    Path("defs/wget.yaml").write_text(yaml.safe_dump(WGET), "utf-8")
    Path("one.yaml").write_text(yaml.safe_dump(MNIST), "utf-8")
    for location in ("defs", "one.yaml"):
        ran = marketplace(capsys, "add", location)
        assert (ran.status, ran.err) == (0, "")
        assert f"{tmp_path}/config/pai-runtime/marketplace.yaml" in ran.out
    assert marketplace(capsys, "show", "wget", "--json").data["origin"] == "defs:wget.yaml"
    assert marketplace(capsys, "show", "mnist", "--json").data["origin"] == "one:one.yaml"


def test_a_server_is_added_with_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    Path("token").write_text("alice-token")
    with MarketplaceServer(item("mnist", yaml.safe_dump(MNIST))) as server:
        ran = marketplace(capsys, "add", server.url, "--name", "pai", "--token-file", "token")
        assert (ran.status, ran.err) == (0, "")
        assert "with 1 definition," in ran.out


@pytest.mark.parametrize(("type_", "data"), [("template", 2), ("data", 1), ("data", 2)])
def test_use_prints_the_whole_job_that_an_item_is(
    capsys: pytest.CaptureFixture[str], type_: str, data: int
) -> None:
    Path("token").write_text("alice-token")
    some = [{"name": f"part{number}", "type": "data", "uri": ["x"]} for number in range(data)]
    published = item("My job", yaml.safe_dump(job(prerequisites=some)), type=type_, author="mal\nlory\x1b[1m")
    with MarketplaceServer(published) as server:
        marketplace(capsys, "add", server.url, "--name", "pai", "--token-file", "token")
        reference = f"marketplace://prerequisites/itemId/{published['id']}"
        ran = marketplace(capsys, "use", reference)
        assert (ran.status, ran.err) == (0, "")
        assert yaml.safe_load(ran.out) == job(prerequisites=some)
        assert f"{server.url}/api/items/{published['id']} by mal lory" in ran.out
        assert "\x1b" not in ran.out
        assert (reference in ran.out) == (data == 1), "how to use its data alone"
        given = marketplace(capsys, "use", reference, "--var", "path=/x")
        assert (given.status, given.out) == (1, "")
        shown = marketplace(capsys, "show", reference)
        assert shown.status == (0 if data == 1 else 2)


def test_a_link_to_the_configuration_stays_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder("team", WGET)
    configuration = tmp_path / "config/pai-runtime/marketplace.yaml"
    kept = tmp_path / "dotfiles.yaml"
    configuration.rename(kept)
    configuration.symlink_to(kept)
    Path("defs").mkdir()
    Path("defs/wget.yaml").write_text(yaml.safe_dump(WGET), "utf-8")
    assert marketplace(capsys, "add", "defs").status == 0
    assert configuration.is_symlink()
    assert "defs" in kept.read_text("utf-8")


@pytest.mark.process
def test_two_that_add_at_once_wait_for_each_other(tmp_path: Path) -> None:
    for name in ("first", "second"):
        Path(name).mkdir()
        Path(name, "wget.yaml").write_text(yaml.safe_dump(WGET), "utf-8")
    configuration = tmp_path / "config/pai-runtime"
    configuration.mkdir(parents=True)
    with holding(configuration):
        adding = subprocess.Popen([PROGRAM, "marketplace", "add", "second"], stdout=subprocess.DEVNULL)
        until(lambda: f" {adding.pid} " in waiting_for_locks())
        source = f"sources:\n  - {{name: first, folder: {Path('first').absolute()}}}\n"
        (configuration / "marketplace.yaml").write_text(source, "utf-8")
    assert adding.wait() == 0
    added = yaml.safe_load((configuration / "marketplace.yaml").read_text("utf-8"))
    assert [each["name"] for each in added["sources"]] == ["first", "second"]


@contextmanager
def holding(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    yield
    os.close(fd)


def waiting_for_locks() -> str:
    return "\n".join(line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (["team"], 1, "the name 'team' is taken"),
        (["team", "--name", "again"], 1, "the source 'team'"),
        (["nowhere"], 2, "neither a directory"),
        (["empty", "--name", "a b"], 1, "letters"),
        (["broken.yaml"], 1, "broken.yaml:1"),
        (["ftp://example.org/a.yaml"], 2, "ftp"),
    ],
)
def test_what_cannot_be_a_source_leaves_the_configuration_alone(
    capsys: pytest.CaptureFixture[str], args: list[str], status: int, text: str
) -> None:
    folder("team", WGET)
    Path("empty").mkdir()
    Path("broken.yaml").write_text("- name: [", "utf-8")
    configuration = Path("config/pai-runtime/marketplace.yaml")
    before = configuration.read_bytes()
    ran = marketplace(capsys, "add", *args)
    assert (ran.status, ran.out) == (status, "")
    assert text in ran.err
    assert configuration.read_bytes() == before


def test_a_configuration_that_a_person_has_to_change_is_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    team = folder("team", WGET)
    configuration = Path("config/pai-runtime/marketplace.yaml")
    text = f"sources: [{{name: team, folder: {team.absolute()}}}]\n"
    configuration.write_text(text, "utf-8")
    Path("defs").mkdir()
    Path("defs/mnist.yaml").write_text(yaml.safe_dump(WGET), "utf-8")
    ran = marketplace(capsys, "add", "defs")
    assert (ran.status, ran.out) == (1, "")
    assert "  - name: defs" in ran.err
    assert configuration.read_text("utf-8") == text


@pytest.mark.process
def test_a_server_is_added_with_its_token_and_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path("token").write_text("alice-token\n", "utf-8")
    published = [item("remote", yaml.safe_dump(script("remote")), description="On a server.")]
    published += [
        item("twice", yaml.safe_dump(script("twice")), author=author) for author in ("alice", "bob")
    ]
    with MarketplaceServer(*published) as server:
        ran = marketplace(capsys, "add", server.url, "--name", "pai", "--token-file", "token")
        assert (ran.status, ran.err) == (0, "")
        assert "with 3 definitions" in ran.out
        rows = {each["name"]: each for each in marketplace(capsys, "list", "--json").data}
        assert (rows["remote"]["source"], rows["remote"]["author"]) == ("pai", "alice")
        (found,) = marketplace(capsys, "search", "server", "--source", "pai", "--json").data
        assert found["name"] == "remote"
        several = marketplace(capsys, "show", "twice")
        assert (several.status, several.out) == (2, "")
        assert published[2]["id"] in several.err
        id_ = f"marketplace://prerequisites/itemId/{published[2]['id']}"
        assert marketplace(capsys, "show", id_, "--json").data["author"] == "bob"
        valid(capsys, marketplace(capsys, "use", id_))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    ran = marketplace(capsys, "list")
    assert ran.status == 0
    assert "debug_hook" in ran.out
    assert ran.err.startswith("source pai: warning: ")


def test_a_url_of_a_definition_file_is_added(capsys: pytest.CaptureFixture[str]) -> None:
    with FaultServer(Reply(200, yaml.safe_dump([WGET, SHARE]).encode())) as server:
        ran = marketplace(capsys, "add", f"{server.url}/tools.yaml", "--name", "tools")
        assert (ran.status, ran.err) == (0, "")
        shown = marketplace(capsys, "show", "share", "--json").data
        assert shown["origin"] == f"{server.url}/tools.yaml"
    with FaultServer(Reply(404, b"")) as server:
        assert marketplace(capsys, "add", f"{server.url}/none.yaml", "--name", "none").status == 2


def test_a_broken_configuration_is_told_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    folder("team", WGET)
    configuration = Path("config/pai-runtime/marketplace.yaml")
    configuration.write_text("sources:\n  - name: team\n    foldr: /x\n", "utf-8")
    Path("defs").mkdir()
    for args in (["list"], ["show", "wget"], ["add", "defs"]):
        ran = marketplace(capsys, *args)
        assert (ran.status, ran.out) == (1 if args[0] == "add" else 2, "")
        assert "marketplace.yaml:3:5" in ran.err


def test_a_source_that_a_policy_refuses_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    team = folder("team", WGET)
    Path("policy.yaml").write_text(
        "policyVersion: 1\nplugins: []\ndefinitions: {sources: [embedded]}\n", "utf-8"
    )
    ran = marketplace(capsys, "list", "--policy", "policy.yaml")
    assert ran.status == 0
    assert "wget" not in ran.out
    assert ran.err.startswith("source team: warning: policy policy.yaml ")
    assert str(team.absolute()) in ran.err
    assert marketplace(capsys, "show", "wget", "--policy", "policy.yaml").status == 2
    Path("defs").mkdir()
    Path("defs/a.yaml").write_text(yaml.safe_dump(WGET), "utf-8")
    assert marketplace(capsys, "add", "defs", "--policy", "policy.yaml").status == 2
    assert "defs" not in Path("config/pai-runtime/marketplace.yaml").read_text("utf-8")
