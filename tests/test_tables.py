import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

_TESTS = """
import pytest

@pytest.mark.parametrize("value", [1, 2, 4, pytest.param(7, marks=pytest.mark.needs("root"))], ids=str)
def test_values(value):
    assert value % 2

@pytest.mark.parametrize("value", [1, 2])
def test_each_with_its_folder(value, tmp_path):
    (tmp_path / "file").touch(exist_ok=False)

@pytest.fixture(params=[1, 2])
def made(request):
    return str(request.param)

def test_what_is_made(made):
    assert isinstance(made, str)
"""


def test_cases_without_fixtures_are_one_item_and_each_that_fails_is_named(tmp_path: Path) -> None:
    file = tmp_path / "test_them.py"
    file.write_text(_TESTS)
    argv = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c"]
    ended = subprocess.run(
        [*argv, "/dev/null", "-p", "tests.settings", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition("::")[2] for line in ended.stdout.splitlines() if "::" in line]
    outcomes = {" ".join(line.split(" - ")[0].split()[:2]) for line in lines}
    for expected in ("test_each_with_its_folder[1] PASSED", "test_what_is_made[2] PASSED"):
        assert expected in outcomes, ended.stdout
    failed = {line.split(" - ")[0] for line in ended.stdout.splitlines() if line.startswith("SUBFAILED")}
    assert {line.partition("]")[0] for line in failed} == {"SUBFAILED[2", "SUBFAILED[4"}, ended.stdout
    assert any("test_values[root]" in line for line in lines), "those with needs are another item"
