"""``pai-runtime lock``: pins the bytes that the references of a job mean, in a file beside it."""

import argparse
import os
from collections.abc import Iterator, Mapping
from errno import EEXIST
from pathlib import Path

from pai_definitions.job_library import JobLibrary, open_beside
from pai_definitions.lock import Key, Lock, Pin, existing_lock, lock_path, lock_text
from pai_definitions.origins import shared_origin
from pai_document.amounts import counted
from pai_document.document import read_text
from pai_document.problems import InvalidInput, Problem, Problems, near_miss
from pai_document.value import Value
from pai_runtime.command.arguments import add_job, add_overrides, add_policy, given_overrides
from pai_runtime.command.jobs import Host, given_host, job_plugins, load_job
from pai_runtime.command.output import report_problems, write_lines
from pai_runtime.host.locations import named
from pai_runtime.plugin import Output
from pai_task.exit_codes import INVALID
from pai_task.folder import Folder
from pai_task.record import replace

Pins = Mapping[Key, Pin]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_job(parser)
    add_overrides(parser)
    add_policy(parser)
    parser.add_argument(
        "--update",
        action="append",
        default=[],
        metavar="NAME",
        help="lock anew what has this name, reference or origin, and what only that requires; repeatable",
    )
    parser.add_argument(
        "--with-content",
        type=Path,
        metavar="FILE",
        help="also write a lock file that carries all definitions, for the configuration of a pod",
    )


def main(args: argparse.Namespace, _output: Output) -> int:
    """Return exit status 0, or 1 if the job is invalid or something cannot be found."""
    path, host = lock_path(args.job), given_host(args.policy)
    try:
        lock = existing_lock(path)
        old = lock.pins if lock else {}
        kept = _without(args, host, lock or Lock(str(path), {}, {})) if args.update else old
        problems = Problems()
        carried = lock.contents if lock else {}
        library = _required(args, host, Lock(str(path), kept, carried), problems, complete=False)
        problems.check()
    except InvalidInput as error:
        report_problems(error.problems)
        return INVALID
    new = library.pins if library else {}
    if args.with_content:
        _write(args.with_content, (library.resolved() if library else "") or lock_text([]))
    if lock or new:
        text = library.lock_text() if library else lock_text([])
        if lock is None or text != read_text(path):
            _write(path, text)
    write_lines([*_changes(old, new), f"{args.job}: {counted(len(new), 'reference', 'references')} locked"])
    return 0


def _without(args: argparse.Namespace, host: Host, lock: Lock) -> Pins:
    """Return the pins that stay: of everything required except what is to be updated.

    Raises `InvalidInput`.
    """
    old, origins = lock.pins, set[str]()
    problems = Problems()
    for name in args.update:
        meant = {named(name), shared_origin(named(name))}
        found = {pin.origin for pin in old.values() if meant & {pin.reference, pin.origin, pin.name}}
        origins |= found
        if not found:
            known = [each for pin in old.values() for each in (pin.reference, pin.name)]
            message = f"--update: nothing that is locked has the name, reference or origin '{named(name)}'"
            suggestion = near_miss(name, known)
            problems.add(
                Problem("no-such-definition", message, found=f"'{named(name)}'", suggestion=suggestion)
            )
    problems.check()
    others = {key: pin for key, pin in old.items() if pin.origin not in origins}
    # With problems, as what is to be updated is missing.
    library = _required(args, host, replace(lock, pins=others), Problems())
    return {key: others[key] for key in library.pins if key in others} if library else {}


def _required(
    args: argparse.Namespace, host: Host, lock: Lock, problems: Problems, *, complete: bool = True
) -> JobLibrary | None:
    """Return the library with what the job turned out to require; None if it requires nothing."""
    opened: list[JobLibrary] = []

    def open_definitions(secrets: Mapping[str, Value]) -> JobLibrary:
        opened.append(open_beside(args.job, secrets, host.location_refusal, lock, complete=complete))
        return opened[0]

    with problems.caught():
        load_job(args.job, args.secrets, job_plugins(host), problems, given_overrides(args), open_definitions)
    return opened[0] if opened else None


def _write(path: Path, text: str) -> None:
    if os.path.lexists(path) and not path.is_file():
        raise FileExistsError(EEXIST, "expected a file to write", str(path))
    with Folder.at(path.parent) as folder:
        folder.write(path.name, text)


def _changes(old: Pins, new: Pins) -> Iterator[str]:
    """Yield a line for each pin that was added, removed or updated."""
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key), new.get(key)
        name = f"{key[0]} in {key[1]}" if key[1] else key[0]
        if now is None:
            yield f"removed {name}"
        elif before is None:
            yield f"added {name}: {now.origin} sha256:{now.digest}"
        elif (before.origin, before.digest) != (now.origin, now.digest):
            was = (
                f"{before.origin} sha256:{before.digest}"
                if before.origin != now.origin
                else f"sha256:{before.digest}"
            )
            yield f"updated {name}: {now.origin} sha256:{now.digest}, was {was}"
