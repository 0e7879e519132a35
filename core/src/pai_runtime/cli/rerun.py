"""``pai-runtime rerun``: runs the job of a run again, as it was run, with changes on the command line."""

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from pai_document.document import parse_document, read_text
from pai_document.problems import InvalidInput
from pai_document.value import Value
from pai_runtime.cli import run as run_command
from pai_runtime.cli.arguments import ON_HELP, RUN_HELP, add_on
from pai_runtime.cli.given_run import NotThere, given_run
from pai_runtime.cli.overrides import add_overrides
from pai_runtime.cli.parser import Parser
from pai_runtime.cli.rerun_elsewhere import document_elsewhere, words_elsewhere
from pai_runtime.job.without_secrets import without_section
from pai_runtime.runs.names import LATEST
from pai_runtime.runs.provenance import Provenance, part
from pai_runtime.runs.reader import RunReader
from pai_runtime.terminal.output import say
from pai_task.exit_codes import CANNOT_RUN

_MASKED = "******"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", default=LATEST, metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    add_overrides(parser)
    add_on(parser, f"{ON_HELP}, and is run again there")
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
    try:
        on, rest = _place(args.on, args.more)
        more = [*(word for change in changes for word in change), *rest]
        reader, _ = given_run("rerun", args.run, on)
        words, document = _here(reader, more) if reader.folder else _elsewhere(reader, more)
    except NotThere as error:
        say(f"{error}")
        return CANNOT_RUN
    parser = Parser(prog="pai-runtime run", allow_abbrev=False)
    run_command.add_arguments(parser)
    run_command.add_engine_options(parser, [*words, *more])
    given = parser.parse_args([*words, *more])
    given.document = document
    given.is_own_job = reader.folder is not None or document is None
    say(f"running again: {shlex.join(['pai-runtime', 'run', *words, *more])}")
    return run_command.main(given)


def _place(on: str | None, more: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return where the run is, which may be said after its name too, and the other options."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_on(own, "")
    try:
        found, rest = own.parse_known_args(more, argparse.Namespace(on=on))
    except argparse.ArgumentError as error:
        raise NotThere(f"{error}") from None
    return found.on, rest


def _here(reader: RunReader, more: Sequence[str]) -> tuple[Sequence[str], Value | None]:
    """Return the arguments and the job of a run on this machine, in whose directory we then are."""
    found = _own_provenance(reader)
    words, directory = _words(found), str(found.get("directory"))
    if directory != str(Path.cwd()):
        os.chdir(directory)
    return words, _document(found, Path(words[0]), more)


def _elsewhere(reader: RunReader, more: Sequence[str]) -> tuple[Sequence[str], Value | None]:
    """Return the arguments and the job of a run on a cluster."""
    found = _known(reader)
    words = words_elsewhere(_words(found), reader.on, more)
    path = Path(words[0])
    return words, document_elsewhere(part(found, "job").get("text"), _as_kept(path), path, more)


def _known(reader: RunReader) -> Provenance:
    if not (found := reader.provenance()):
        raise NotThere(f"it is not known where the run {reader.named} came from")
    return found


def _own_provenance(reader: RunReader) -> Provenance:
    """Return where a run of this user came from: options of others may name what is ours."""
    if reader.folder is not None and reader.folder.stat().st_uid != os.geteuid():
        raise NotThere(f"{reader.folder} is somebody else's run; only your own can be run again")
    return _known(reader)


def _words(found: Provenance) -> Sequence[str]:
    words = found.get("arguments")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise NotThere("what is kept of where it came from is invalid")
    if any(_MASKED in word for word in words):
        raise NotThere("an argument of it had the value of a secret, which is not kept; run its job again")
    return words


def _document(found: Provenance, path: Path, more: Sequence[str]) -> Value | None:
    """Return the job as it was written then; None if its file is still the same. Raises `NotThere`."""
    job = part(found, "job")
    text = job.get("text")
    now = _as_kept(path)
    if not isinstance(text, str):
        if now is None:
            raise NotThere(f"{path} is gone, and the job is not kept, since there are secrets in it")
        say(f"note: {path} is taken as it is now: the job is not kept, since there are secrets in it")
        return None
    if now == text:
        return None
    root = parse_document(text, str(path))
    if root.data.get("secrets") == _MASKED and not any(each.startswith("--secrets") for each in more):
        if now is not None:
            say(f"note: {path} has changed since; it is taken as it is now, as its secrets are not kept")
            return None
        raise NotThere(f"{path} is gone, and its secrets are not kept; give them by --secrets FILE")
    say(f"note: {path} has changed since; the job is run as it was")
    return root


def _as_kept(path: Path) -> str | None:
    """Return the text of a job file as it would be kept, without its secrets; None if it is unreadable."""
    try:
        text = read_text(path)
    except InvalidInput:
        return None
    try:
        return without_section(parse_document(text, str(path)))
    except InvalidInput:
        return text
