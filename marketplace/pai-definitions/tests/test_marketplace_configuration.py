"""``marketplace.yaml``: which sources there are, in which order, and what their servers are shown."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from pai_definitions.configuration import SourceSettings, read_sources, user_configuration
from pai_definitions.sources import open_sources
from pai_document.document import parse_document
from pai_document.problems import InvalidInput
from pai_document.value import Value
from pai_runtime.definitions import NoDefinition
from tests.definition_sources import Network

URL = "https://example.org/a.yaml"


def _written(path: Path, *sources: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"sources": list(sources)}))
    return path


def _read(tmp_path: Path, *sources: object) -> Sequence[SourceSettings]:
    return read_sources([_written(tmp_path / "marketplace.yaml", *sources)])


def _secrets(text: str) -> dict[str, Value]:
    return {str(value.key): value for value in parse_document(text, "secrets.yaml").values()}


def test_sources_are_asked_in_order_then_the_embedded_and_then_servers(tmp_path: Path) -> None:
    paths = [
        _written(tmp_path / "user.yaml", {"name": "b", "url": URL}, {"name": "a", "folder": "defs"}),
        tmp_path / "absent.yaml",
        _written(
            tmp_path / "cluster.yaml", {"name": "c", "marketplace": "https://pai.example.org/marketplace/"}
        ),
    ]
    sources, _ = open_sources(read_sources(paths), {}, Network())
    assert [(each.name, each.location) for each in sources] == [
        ("b", URL),
        ("a", str((tmp_path / "defs").resolve())),
        ("embedded", "embedded"),
        ("c", "https://pai.example.org/marketplace"),
    ]


def test_of_sources_with_one_name_the_users_takes_precedence(tmp_path: Path) -> None:
    paths = [_written(tmp_path / file, {"name": "a", "folder": file}) for file in ("user", "cluster")]
    assert [each.place for each in read_sources(paths)] == [str(tmp_path / "user")]


@pytest.mark.parametrize(
    ("folder", "place"), [("defs", "{here}/defs"), ("/srv/defs", "/srv/defs"), ("~/defs", "{home}/defs")]
)
def test_a_folder_is_relative_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, place: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    expected = place.format(here=tmp_path, home=tmp_path / "home")
    assert _read(tmp_path, {"name": "a", "folder": folder})[0].place == expected


@pytest.mark.parametrize(
    ("source", "code", "field"),
    [
        ({"name": "a"}, "wrong-source", "sources[0]"),
        ({"name": "a", "folder": "b", "url": URL}, "wrong-source", "sources[0]"),
        ({"folder": "b"}, "missing-field", "sources[0]"),
        ({"name": "a b", "folder": "b"}, "wrong-value", "sources[0].name"),
        ({"name": "embedded", "folder": "b"}, "wrong-value", "sources[0].name"),
        ({"name": "https", "folder": "b"}, "wrong-value", "sources[0].name"),
        ({"name": "a", "folder": ["b"]}, "wrong-type", "sources[0].folder"),
        ({"name": "a", "folders": "b"}, "unknown-field", "sources[0].folders"),
        ({"name": "a", "url": "example.org/a.yaml"}, "wrong-url", "sources[0].url"),
        ({"name": "a", "url": "ftp://example.org/a.yaml"}, "wrong-url", "sources[0].url"),
        ({"name": "a", "marketplace": "https://u:p@example.org"}, "wrong-url", "sources[0].marketplace"),
        ({"name": "a", "folder": "b", "token": {"file": "t"}}, "wrong-source", "sources[0].token"),
        ({"name": "a", "url": URL, "token": "t"}, "wrong-type", "sources[0].token"),
        ({"name": "a", "url": URL, "token": {"value": "t"}}, "unknown-field", "sources[0].token.value"),
    ],
)
def test_a_fault_is_reported_where_it_is(tmp_path: Path, source: object, code: str, field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        _read(tmp_path, source)
    assert (code, field) in [(each.code, each.field) for each in raised.value.problems]
    assert all(each.position and each.position.line for each in raised.value.problems)


def test_all_faults_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    paths = [
        _written(tmp_path / "a.yaml", {"name": "a"}, {"name": "b", "url": "b"}),
        _written(tmp_path / "b.yaml", {"name": "a", "folder": "a"}, {"name": "a", "folder": "b"}),
    ]
    with pytest.raises(InvalidInput) as raised:
        read_sources(paths)
    assert [each.code for each in raised.value.problems] == ["wrong-source", "wrong-url", "duplicate-name"]


def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("nowhere")
    with pytest.raises(InvalidInput):
        read_sources([tmp_path / "link.yaml"])
    with pytest.raises(InvalidInput):
        read_sources([tmp_path])


def test_a_token_is_read_from_a_file_when_the_server_is_asked(tmp_path: Path) -> None:
    settings = _read(tmp_path, {"name": "a", "url": URL, "token": {"file": "token"}})
    network = Network({URL: "name: a\nplugin: cmd\n"})
    sources, web = open_sources(settings, {}, network)
    (tmp_path / "token").write_text("abc.def\n")
    assert sources[0].read(URL)
    web.get(URL)
    assert network.asked == [(URL, "abc.def")] * 2


def test_a_token_may_be_a_secret_of_the_job(tmp_path: Path) -> None:
    (source,) = _read(tmp_path, {"name": "a", "url": URL, "token": {"secret": "pai_token"}})
    assert source.token(_secrets("pai_token: abc\n")) == "abc"
    with pytest.raises(NoDefinition) as raised:
        source.token({})
    assert raised.value.code == "definition-forbidden"


@pytest.mark.parametrize("token", ["", " \n", "two words", "two\nlines", "naïve", "\x1b[31m"])
def test_what_is_no_token_is_never_shown_to_anybody(tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text(token)
    (source,) = _read(tmp_path, {"name": "a", "url": URL, "token": {"file": "token"}})
    with pytest.raises(InvalidInput) as raised:
        source.token({})
    (problem,) = raised.value.problems
    assert (problem.code, problem.field) == ("wrong-token", "sources[0].token.file")
    assert not token.strip() or token.strip() not in str(problem).replace("marketplace.yaml", "")


def test_a_token_in_no_file_is_an_error_where_it_is_configured(tmp_path: Path) -> None:
    (source,) = _read(tmp_path, {"name": "a", "url": URL, "token": {"file": "absent"}})
    with pytest.raises(InvalidInput) as raised:
        source.token({})
    assert [(each.code, each.field) for each in raised.value.problems] == [
        ("unreadable", "sources[0].token.file")
    ]


@pytest.mark.parametrize(
    ("config", "expected"),
    [(None, "home/.config"), ("{tmp}/config", "config"), ("", "home/.config"), ("relative", "home/.config")],
)
def test_the_users_file_is_where_the_xdg_specification_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if config is None:
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CONFIG_HOME", config.format(tmp=tmp_path))
    assert user_configuration() == tmp_path / expected / "pai-runtime/marketplace.yaml"
