"""What runs a task in any image is made of the standard library and of itself."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import pai_task

_PACKAGE = Path(pai_task.__file__).parent
_MODULES = sorted(_PACKAGE.rglob("*.py"))


def _imported(module: Path) -> Iterator[str]:
    """The names of what a module imports anywhere; they are all absolute."""
    return _imported_in(ast.parse(module.read_text("utf-8")))


def _imported_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield str(node.module)
            yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.parametrize("module", _MODULES, ids=lambda path: str(path.relative_to(_PACKAGE)))
def test_it_imports_the_standard_library_and_itself_only(module: Path) -> None:
    tops = {name.partition(".")[0] for name in _imported(module)}
    assert tops <= {*sys.stdlib_module_names, "pai_task"}


def test_the_files_of_a_task_do_without_its_supervisor() -> None:
    others = [module for module in _MODULES if module.parent == _PACKAGE]
    assert len(others) > 30
    names = {name for module in others for name in _imported(module)}
    assert not [name for name in names if name.startswith("pai_task.supervisor")]


@pytest.mark.process
def test_what_only_forks_supervisors_loads_all_that_they_import_late() -> None:
    program = (
        "import sys; from pai_task.supervisor import supervisor; supervisor.load_all(); print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    modules = {f"pai_task.{'.'.join(each.relative_to(_PACKAGE).with_suffix('').parts)}" for each in _MODULES}
    late = {
        name
        for module in _MODULES
        for function in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef)
        for name in _imported_in(function)
    }
    assert len(late & modules) > 5
    assert late & modules <= {*ended.stdout.split()}


def test_it_requires_nothing() -> None:
    assert not metadata.requires("pai-task")
