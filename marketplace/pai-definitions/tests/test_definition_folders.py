"""Definition files in folders: which files count, and how a name is found in them."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pai_definitions import folder as folder_module
from pai_definitions.folder import FolderSource
from pai_definitions.reference import parse_reference
from pai_document.problems import Problems
from pai_runtime.definitions import NoDefinition
from tests.definition_sources import find, folder_source, library, problems_of, text, write

JOB = "protocolVersion: 2\nname: mnist\ntype: job\n"


def _origins(source: FolderSource, name: str) -> list[str]:
    return [file.origin for file in source.find(parse_reference(f"marketplace://name/{name}"))]


@pytest.mark.parametrize(
    "written",
    [
        "name: mnist\nplugin: cmd\n",
        "- name: mnist\n  plugin: cmd\n- name: other\n  plugin: cmd\n",
        "plugin: cmd\nname:   'mnist'  # a data set\n",
        '{"name": "mnist", "plugin": "cmd"}\n',
        "[{plugin: cmd, name: mnist}]\n",
        "\ufeffname: mnist\r\nplugin: cmd\r\n",
        "name: &own mnist\nplugin: cmd\n",
        "name:\n  mnist\nplugin: cmd\n",
    ],
)
def test_a_name_is_found_however_yaml_writes_it(tmp_path: Path, written: str) -> None:
    found = library(folder_source(tmp_path, {"some.yml": written}))
    assert find(found, "marketplace://name/mnist").name == "mnist"


def test_a_name_that_is_part_of_another_is_not_found(tmp_path: Path) -> None:
    source = folder_source(tmp_path, {"a.yaml": text("mnist-2"), "b.yaml": text("my_mnist")})
    assert _origins(source, "mnist") == []


def test_files_are_found_in_all_folders_and_called_by_their_paths(tmp_path: Path) -> None:
    files = {"b.yaml": text("mnist"), "deep/er/a.yml": text("mnist"), "other.yaml": text("other")}
    assert _origins(folder_source(tmp_path, files), "mnist") == ["team:b.yaml", "team:deep/er/a.yml"]


def test_hidden_files_jobs_and_files_of_other_kinds_are_left_out(tmp_path: Path) -> None:
    same = text("mnist")
    files = {".git/a.yaml": same, ".a.yaml": same, "a.txt": same, "deep/.b/a.yaml": same, "job.yaml": JOB}
    assert _origins(folder_source(tmp_path, files), "mnist") == []


@pytest.mark.process
def test_a_git_checkout_is_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"definitions/mnist.yaml": text("mnist")})
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    source = FolderSource("team", tmp_path)
    assert _origins(source, "mnist") == ["team:definitions/mnist.yaml"]


def test_links_within_the_folder_are_files_and_others_lead_nowhere(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"mnist.yaml": text("mnist")})
    folder = write(tmp_path / "folder", {"..data/mounted.yaml": text("mnist")})
    (folder / "mounted.yaml").symlink_to("..data/mounted.yaml")  # as Kubernetes mounts a ConfigMap
    (folder / "link.yaml").symlink_to(outside / "mnist.yaml")
    (folder / "links").symlink_to(outside)
    (folder / "around.yaml").symlink_to("../outside/mnist.yaml")
    (folder / "circle.yaml").symlink_to("circle.yaml")
    source, problems = FolderSource("team", folder), Problems()
    assert _origins(source, "mnist") == ["team:mounted.yaml"]
    source.list(problems)
    files = {Path(each.position.file).name for each in problems.in_order if each.position}
    assert files == {"link.yaml", "around.yaml", "circle.yaml"}
    assert {each.code for each in problems.in_order} == {"unreadable"}


def test_what_is_no_regular_file_holds_nobody_up(tmp_path: Path) -> None:
    folder = write(tmp_path, {"mnist.yaml": text("mnist")})
    os.mkfifo(folder / "fifo.yaml")
    (folder / "folder.yaml").mkdir()
    source, problems = FolderSource("team", folder), Problems()
    assert _origins(source, "mnist") == ["team:mnist.yaml"]
    assert [each.name for each in source.list(problems)] == ["mnist"]
    assert [each.code for each in problems.in_order] == ["unreadable", "unreadable"]


def test_a_broken_file_is_in_the_way_of_nobody_who_does_not_need_it(tmp_path: Path) -> None:
    files = {"a.yaml": "plugin: [\nrequire: {name: mnist}\n", "b.yaml": text("mnist"), "c.yaml": "\0"}
    source, problems = folder_source(tmp_path, files), Problems()
    assert find(library(source), "marketplace://name/mnist").file.origin == "team:b.yaml"
    assert [each.name for each in source.list(problems)] == ["mnist"]
    broken = [Path(each.position.file).name for each in problems.in_order if each.position]
    assert set(broken) == {"a.yaml", "c.yaml"}


@pytest.mark.parametrize(
    "files",
    [
        {"a.yaml": "name: mnist\nplugin: [\n"},
        {"a.yaml": "- plugin: cmd\n  require: [\n    name: mnist\n"},  # nothing else may be meant
        {"a.yaml": "- name: mnist\n  plugin: [\n", "b.yaml": text("mnist", version="'1.0'")},
    ],
)
def test_a_broken_file_that_has_the_name_is_an_error(tmp_path: Path, files: Mapping[str, str]) -> None:
    found = library(folder_source(tmp_path, files))
    assert {file for _, file in problems_of(found, "marketplace://name/mnist")} == {str(tmp_path / "a.yaml")}


@pytest.mark.parametrize(
    ("bound", "most"), [("MOST_ENTRIES", 3), ("MOST_BYTES", 100), ("MOST_LEVELS", 2)], ids=str
)
def test_a_folder_beyond_its_bounds_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    files = {f"a{number}.yaml": text("mnist") for number in range(3)}
    source = folder_source(tmp_path, {**files, "b/c/d/e.yaml": text("mnist")})
    monkeypatch.setattr(folder_module, bound, most)
    with pytest.raises(NoDefinition) as raised:
        source.find(parse_reference("marketplace://name/mnist"))
    assert raised.value.code == "definition-unavailable"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoDefinition) as raised:
        FolderSource("team", tmp_path / "absent").find(parse_reference("marketplace://name/mnist"))
    assert raised.value.code == "definition-unavailable"


def test_each_file_is_read_once(tmp_path: Path) -> None:
    source = folder_source(tmp_path, {"a.yaml": text("mnist")})
    before = _origins(source, "mnist")
    (tmp_path / "a.yaml").unlink()
    assert _origins(source, "mnist") == before
    assert source.read("team:a.yaml") is not None


def test_an_origin_is_of_one_source_only(tmp_path: Path) -> None:
    source = folder_source(tmp_path, {"a.yaml": text("mnist")})
    for origin in ("other:a.yaml", "team:b.yaml", "team:../a.yaml", f"team:{tmp_path}/a.yaml", "a.yaml"):
        assert source.read(origin) is None


def test_a_list_has_what_tells_definitions_of_one_name_apart(tmp_path: Path) -> None:
    versions = {f"{each}.yaml": text("mnist", version=f"'{each}'") for each in ("1.0", "2.0")}
    source, problems = folder_source(tmp_path, {**versions, "c.yaml": text("c", summary="See")}), Problems()
    assert [(each.reference, each.version, each.summary) for each in source.list(problems)] == [
        ("marketplace://name/c", "", "See"),
        ("marketplace://name/mnist@1.0", "1.0", ""),
        ("marketplace://name/mnist@2.0", "2.0", ""),
    ]
    assert not problems.in_order
