"""Engine profiles are those of the user and of the machine, and what is wrong in them is told by line."""

from pathlib import Path

import pytest

from pai_document.problems import InvalidInput, Problem
from pai_runtime.engines import profiles as profiles_module
from pai_runtime.engines.profiles import find_profile
from tests.small_cluster import write_profiles

LAB = "  lab:\n    engine: kubernetes\n    namespace: {}\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(profiles_module, "MACHINE_PROFILES", tmp_path / "etc/pai-runtime/engines.yaml")
    return tmp_path / "home"


def problems_of(name: str = "lab") -> tuple[Problem, ...]:
    with pytest.raises(InvalidInput) as raised:
        find_profile(name)
    return raised.value.problems


def test_the_users_profile_takes_precedence_and_the_machines_others_are_there(
    tmp_path: Path, home: Path
) -> None:
    write_profiles(tmp_path / "etc", LAB.format("shared") + LAB.format("all").replace("lab", "prod"))
    assert find_profile("lab").value.data["namespace"] == "shared"
    write_profiles(home, LAB.format("mine"))
    found = find_profile("lab")
    assert (found.name, found.engine, found.value.data["namespace"]) == ("lab", "kubernetes", "mine")
    assert found.value.field == "engines.lab"
    assert find_profile("prod").value.data["namespace"] == "all"


def test_without_any_file_both_are_named(tmp_path: Path, home: Path) -> None:
    (problem,) = problems_of()
    assert problem.code == "no-such-profile"
    assert str(home / "pai-runtime/engines.yaml") in problem.message
    assert str(tmp_path / "etc/pai-runtime/engines.yaml") in problem.message


def test_a_name_that_is_misspelt_is_told_with_the_one_that_was_meant(home: Path) -> None:
    write_profiles(home, LAB.format("mine") + LAB.format("all").replace("lab", "production"))
    (problem,) = problems_of("prodction")
    assert (problem.code, problem.suggestion, problem.found) == ("no-such-profile", "production", "prodction")
    assert "lab, production" in problem.message


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("  lab: {}\n", 3, "engines.lab"),
        ("  lab:\n    engine: 7\n", 4, "engines.lab.engine"),
        ("  lab:\n    engine: ''\n", 4, "engines.lab.engine"),
        ("  my lab:\n    engine: kubernetes\n", 3, "engines.my lab"),
        ("  - lab\n", 3, "engines"),
        ("  lab:\n    engine: kubernetes\nmore: 1\n", 5, "more"),
        ("  lab: [\n", 3, ""),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(home: Path, text: str, line: int, field: str) -> None:
    path = write_profiles(home, text)
    (problem,) = problems_of()
    assert problem.position is not None
    assert (problem.position.file, problem.position.line) == (str(path), line)
    assert problem.field == field


def test_both_files_are_checked_even_if_the_users_has_the_profile(tmp_path: Path, home: Path) -> None:
    write_profiles(home, LAB.format("mine"))
    path = write_profiles(tmp_path / "etc", "  lab: {}\n")
    path.write_text(path.read_text().replace("Version: 1", "Version: 2"))
    assert {problem.field for problem in problems_of()} == {"enginesVersion", "engines.lab"}
