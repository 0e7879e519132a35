"""``pai-runtime rerun``: runs the job of a run again, as it was run, with changes on the command line."""

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from pai_runtime.cli import run as run_command
from pai_runtime.cli.arguments import RUN_HELP
from pai_runtime.cli.given_run import NotThere, given_run
from pai_runtime.cli.overrides import add_overrides
from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import InvalidInput
from pai_runtime.document.value import Value
from pai_runtime.job.without_secrets import without_section
from pai_runtime.runs.names import LATEST
from pai_runtime.runs.provenance import Provenance, part, read_provenance
from pai_runtime.task.exit_codes import CANNOT_RUN
from pai_runtime.terminal.output import say

_MASKED = "******"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", default=LATEST, metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    add_overrides(parser)
    parser.add_argument(
        "more",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help="further options of run, after RUN, which take precedence, such as --timeout 2h",
    )


def main(args: argparse.Namespace) -> int:
    """Return the job's exit status; 2 if it cannot be run again."""
    changes = [("--set", "=".join(each)) for each in args.set]
    changes += [("--role-instances", f"{role}={number}") for role, number in args.role_instances]
    more = [*(word for change in changes for word in change), *args.more]
    try:
        reader, _ = given_run("rerun", args.run)
        found = _own_provenance(reader.folder or Path(reader.named))
        words, directory = _words(found), str(found.get("directory"))
        if directory != str(Path.cwd()):
            os.chdir(directory)
        document = _document(found, Path(words[0]), more)
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    parser = argparse.ArgumentParser(prog="pai-runtime run", allow_abbrev=False)
    run_command.add_arguments(parser)
    run_command.add_engine_options(parser, [*words, *more])
    given = parser.parse_args([*words, *more])
    given.document = document
    say(f"running again: {shlex.join(['pai-runtime', 'run', *words, *more])}")
    return run_command.main(given)


def _own_provenance(folder: Path) -> Provenance:
    """Return where a run of this user came from: options of others may name what is ours."""
    found = read_provenance(folder)
    if folder.stat().st_uid != os.geteuid():
        raise NotThere(f"{folder} is somebody else's run; only your own can be run again")
    if not found:
        raise NotThere(f"it is not known where the run {folder} came from: it has no provenance.json")
    return found


def _words(found: Provenance) -> Sequence[str]:
    words = found.get("arguments")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise NotThere("its provenance.json is invalid")
    if any(_MASKED in word for word in words):
        raise NotThere("an argument of it had the value of a secret, which is not kept; run its job again")
    return words


def _document(found: Provenance, path: Path, more: Sequence[str]) -> Value | None:
    """Return the job as it was written then; None if its file is still the same. Raises `NotThere`."""
    job = part(found, "job")
    text = job.get("text")
    try:
        now = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        now = None
    if not isinstance(text, str):
        if now is None:
            raise NotThere(f"{path} is gone, and the job is not kept, since there are secrets in it")
        say(f"note: {path} is taken as it is now: the job is not kept, since there are secrets in it")
        return None
    if now is not None and _masked(now, path) == text:
        return None
    root = parse_document(text, str(path))
    if root.data.get("secrets") == _MASKED and not any(each.startswith("--secrets") for each in more):
        if now is not None:
            say(f"note: {path} has changed since; it is taken as it is now, as its secrets are not kept")
            return None
        raise NotThere(f"{path} is gone, and its secrets are not kept; give them by --secrets FILE")
    say(f"note: {path} has changed since; the job is run as it was")
    return root


def _masked(text: str, path: Path) -> str:
    try:
        return without_section(parse_document(text, str(path)))
    except InvalidInput:
        return text
