"""Definitions and jobs that would keep a machine busy: what they require is bounded."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pai_definitions.folder import FolderSource
from pai_definitions.model import Listed
from pai_definitions.reference import parse_reference
from pai_document.problems import MOST_LOOKED_FOR, Problems
from tests.definition_harness import problems
from tests.definition_sources import code_of, library
from tests.support import job

USES = 100


def _codes(folder: Path, definition: str) -> Sequence[str]:
    """The codes of the problems of a job that uses a definition a hundred times, each with another `y`."""
    document: dict[str, Any] = job()
    uses = [{"name": "marketplace://name/d", "template_variables": {"y": number}} for number in range(USES)]
    document["taskRoles"]["worker"]["prerequisites"] = uses
    return [each.code for each in problems(folder, document, {"d": f"name: d\nplugin: cmd\n{definition}"})]


def test_values_of_variables_that_nothing_shows_count_too(tmp_path: Path) -> None:
    default = f"[{'0,' * 10_000}0]"
    definition = f"plugin_params: {{}}\ntemplate_variables: [y, {{name: x, default: {default}}}]\n"
    assert _codes(tmp_path, definition) == ["job-too-large"]


@pytest.mark.parametrize("variables", ["[y]", f"[{', '.join(f'x{each}' for each in range(100))}]"])
def test_faults_that_each_use_of_a_definition_has_are_not_all_looked_for(
    tmp_path: Path, variables: str
) -> None:
    faults = ", ".join(f"{name}: '{{{{ y | join }}}}'" for name in _names(100))
    parameters = faults if variables == "[y]" else ""
    codes = _codes(tmp_path, f"plugin_params: {{{parameters}}}\ntemplate_variables: {variables}\n")
    assert "too-many-problems" in codes
    assert len(codes) < 2 * MOST_LOOKED_FOR


def _names(count: int) -> Sequence[str]:
    return [f"a{number}" for number in range(count)]


class Counting(FolderSource):
    """A folder that counts how often all of it is listed."""

    listed = 0

    def list(self, problems: Problems) -> Sequence[Listed]:
        self.listed += 1
        return super().list(problems)


def test_what_there_is_is_listed_once_for_all_that_there_is_not(tmp_path: Path) -> None:
    source = Counting("team", tmp_path)
    found = library(source)
    for name in _names(10):
        assert code_of(found, f"marketplace://name/{name}") == "no-such-definition"
    assert source.listed == 1


@pytest.mark.parametrize("piece", ["name: &", "name:&", "name: &a &b ", "name: !", "name:", "name: \n"])
def test_looking_for_names_is_no_work_for_minutes(tmp_path: Path, piece: str) -> None:
    (tmp_path / "a.yaml").write_text(piece * (1_000_000 // len(piece)))
    began = time.process_time()
    assert not FolderSource("team", tmp_path).find(parse_reference("marketplace://name/other"))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("before", ["&a ", "!!str ", "&a !!str ", "!!str &a "])
def test_a_name_may_have_an_anchor_and_a_tag(tmp_path: Path, before: str) -> None:
    (tmp_path / "a.yaml").write_text(f"name: {before}other\nplugin: cmd\n")
    assert FolderSource("team", tmp_path).find(parse_reference("marketplace://name/other"))
