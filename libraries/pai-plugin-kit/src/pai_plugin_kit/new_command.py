"""``pai-runtime plugins new``: a distribution of a new plugin, whose tests pass."""

import argparse
import contextlib
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pai_runtime.plugin import Output, UserError
from pai_runtime.terminal.output import can_ask

_HOOKS: Final = (
    *("pai_init", "pai_prerequisite", "pai_task_starts", "pai_analyze"),
    *("pai_task_succeeds", "pai_task_fails", "pai_task_exits"),
)
"""The hooks of a task, in the order in which they are called; the others are for job formats and engines."""

_ID = re.compile(r"[a-z][a-z0-9]*(\.[a-z][a-z0-9_]*)+")
_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+ ()-]*")

_FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "src/{package}/__init__.py": "plugin.py",
    "src/{package}/manifest.json": "manifest.json",
    "tests/test_{name}.py": "test.py",
    ".github/workflows/test.yaml": "workflow.yaml",
    ".gitignore": "gitignore",
}
"""The files of a distribution, each with its template."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "id", metavar="ID", help="the plugin's id, a reverse domain name such as org.example.greet"
    )
    parser.add_argument(
        "--hooks",
        nargs="+",
        default=["pai_prerequisite"],
        choices=_HOOKS,
        metavar="HOOK",
        help=f"the hooks that it implements, of {', '.join(_HOOKS)} (default: pai_prerequisite)",
    )
    parser.add_argument(
        "--license", metavar="SPDX", help="its licence, such as MIT; 'none' for none (default: ask)"
    )
    parser.add_argument("--dir", type=Path, metavar="DIR", help="a new directory (default: ./pai-NAME)")


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0, or 2 if the distribution cannot be made."""
    if not _ID.fullmatch(args.id):
        raise UserError(f"expected an id in lower case, such as org.example.greet, found {args.id!r}")
    name = args.id.rpartition(".")[2]
    distribution = f"pai-{name.replace('_', '-')}"
    folder: Path = args.dir or Path(distribution)
    license_ = _license(args.license)
    values = {
        "id": args.id,
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "distribution": distribution,
        "package": distribution.replace("-", "_"),
        "variable": f"{name.upper()}_TEXT" if not re.match("(pai|fc)_", name) else f"MY_{name.upper()}_TEXT",
        "hooks": [hook for hook in _HOOKS if hook in args.hooks],
        "license": license_,
        "year": datetime.now(tz=timezone.utc).year,
    }
    files = {**_FILES, **({"LICENSE": "MIT"} if license_ == "MIT" else {})}
    _write(folder, files, values)
    output.write_lines(_next_steps(folder, args.id, license_))
    return 0


def _license(given: str | None) -> str | None:
    """Return the licence as an SPDX expression; None for none. Raises UserError."""
    if given is None and can_ask():
        with contextlib.suppress(EOFError):
            given = input("Its licence, as an SPDX expression such as MIT or Apache-2.0 (none): ").strip()
    if given in (None, "", "none"):
        return None
    if not _LICENSE.fullmatch(str(given)):
        raise UserError(f"expected an SPDX expression such as MIT or Apache-2.0, found {given!r}")
    return given


def _write(folder: Path, files: dict[str, str], values: dict[str, Any]) -> None:
    templates = Environment(  # noqa: S701 - what is made is no HTML
        loader=FileSystemLoader(Path(__file__).with_name("template")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        folder.mkdir(parents=True)
        for file, template in files.items():
            path = folder / file.format(**values)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(templates.get_template(f"{template}.jinja").render(values), "utf-8")
    except FileExistsError:
        raise UserError(f"{folder} exists already; name another directory by --dir") from None
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None


def _next_steps(folder: Path, id_: str, license_: str | None) -> Sequence[str]:
    todo = [f"made {folder}"]
    if license_ not in (None, "MIT"):
        todo.append(f"put the text of {license_} into {folder}/LICENSE")
    return [
        *todo,
        f"install it, and test it: python -m pip install -e '{folder}[test]' && python -m pytest {folder}",
        f"check it: pai-runtime plugins check {id_}",
    ]
