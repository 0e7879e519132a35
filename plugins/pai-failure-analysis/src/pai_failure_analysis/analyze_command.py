"""``pai-runtime analyze``: why a job failed, from its logs or by the run of it."""

import argparse
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from errno import EINVAL
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.explanation import by_match, unexplained
from pai_failure_analysis.matching import Matcher
from pai_failure_analysis.notes import notes
from pai_failure_analysis.others_words import in_words_of_origin
from pai_failure_analysis.rules import MOST_CODE, Rule, shipped_rules
from pai_failure_analysis.searched_logs import Logs, read_logs
from pai_runtime.plugin import FailedTask, Output, UserError

if TYPE_CHECKING:
    from pai_failure_analysis.spec_file import SpecFile

MOST_NAMED = 5
"""Maximum number of entries of a spec that a message names."""

_TERMINALS = ("/dev/stdin", "/dev/fd/", "/dev/tty", "/dev/pts/", "/proc/self/fd/")

_LATEST = "latest"

NOT_FOUND = 1
"""The exit status if no rule matches, or nothing has failed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "what",
        nargs="*",
        default=[_LATEST],
        metavar="LOG|RUN",
        help="logs of any job (- is standard input); or a run, and a task or role of it, such as worker/0 "
        "(default: latest)",
    )
    parser.add_argument(
        "--exit-code",
        type=_exit_code,
        metavar="N",
        help="the exit code of the job whose logs these are (default: 1); with 0, only notes",
    )
    parser.add_argument(
        "--signal", type=_signal, metavar="S", help="the signal that ended it: 9, KILL or SIGKILL"
    )
    parser.add_argument(
        "--spec", type=Path, metavar="FILE", help="an exit spec whose rules are tried before the shipped ones"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--on", metavar="NAME", help="the run is on the cluster of this engine profile (engines.yaml)"
    )


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0 if all is explained, 1 if not or nothing failed, 2 without such a log or run."""
    matcher = Matcher(_rules(args.spec, output))
    is_run = args.on is not None or _is_run(args.what)
    return _analyze_run(args, matcher, output) if is_run else _analyze_logs(args, matcher, output)


def _is_run(what: Sequence[str]) -> bool:
    """Return whether the argument means a run; an existing file or pipe is a log."""
    # Not by `Path`, which fails for a name that is too long to exist.
    return what[0] != "-" and (os.path.isdir(what[0]) or not os.path.exists(what[0]))  # noqa: PTH110, PTH112


def _analyze_logs(args: argparse.Namespace, matcher: Matcher, output: Output) -> int:
    logs = _read_logs(args.what)
    code = args.exit_code if args.exit_code is not None else 128 + args.signal if args.signal else 1
    evidence = Evidence(code, args.signal, user_log=logs.text, platform_log=logs.text)
    match = matcher.first_match(evidence) if code else None
    found = by_match(match, logs, logs) if match else None
    if found:
        found = replace(found, rule=in_words_of_origin(found.rule, logs.text))
    noted = list(notes(logs.text))
    if args.json:
        output.write_json(found.document(output) if found else None)
        return 0 if found or not code else NOT_FOUND
    if found:
        output.write_lines(found.lines(output))
    else:
        output.write_lines(
            [f"No rule matches exit code {code} and these logs.", *unexplained(logs, matcher.rules, output)]
            if code
            else ["It has not failed."]
        )
    for note in noted:
        name, line = logs.position(note.start)
        output.write_lines(["", f"Note: {note.phrase}: {note.text}", f"  {name}:{line}"])
    return 0 if found or not code else NOT_FOUND


def _analyze_run(args: argparse.Namespace, matcher: Matcher, output: Output) -> int:
    from pai_failure_analysis.failed_tasks import explain  # noqa: PLC0415 - not for logs

    run, *tasks = args.what
    if len(tasks) > 1:
        raise UserError(f"expected logs, or a run and one task at most; '{run}' is no log")
    if args.exit_code is not None or args.signal is not None:
        raise UserError(f"--exit-code and --signal are for logs; '{run}' is no log")
    document, explained = [], []
    for number, task in enumerate(_failed_tasks(run, tasks, args.on, output)):
        found, logs = explain(task, matcher)
        explained.append(found is not None)
        if args.json:
            document.append({"task": task.name, "explanation": found and found.document(output)})
            continue
        said = found.lines(output) if found else _without_rule(logs, matcher, output)
        output.write_lines([*[""] * (number > 0), f"{task.name}: {_end(task.exit_record)}", *said])
    if args.json:
        output.write_json(document)
    elif not explained:
        output.write_lines([f"{' '.join(args.what)} has not failed."])
    return 0 if explained and all(explained) else NOT_FOUND


def _without_rule(logs: Logs, matcher: Matcher, output: Output) -> list[str]:
    return ["No rule matches its exit code and its logs.", *unexplained(logs, matcher.rules, output)]


def _failed_tasks(run: str, tasks: Sequence[str], on: str | None, output: Output) -> Sequence[FailedTask]:
    if on is not None:
        return output.failed_tasks(run, tasks[0] if tasks else None, on)
    try:
        return output.failed_tasks(run, *tasks)
    except UserError as error:
        if run == _LATEST or os.path.exists(run):  # noqa: PTH110
            raise
        raise UserError(f"there is no log '{run}', and {error}") from None


def _end(record: Mapping[str, Any]) -> str:
    return str(record.get("message") or "it left no exit record")


def _rules(spec: Path | None, output: Output) -> list[Rule]:
    if spec is None:
        return shipped_rules()
    from pai_failure_analysis.spec_file import read_spec_file  # noqa: PLC0415 - slow to import

    file = read_spec_file(spec)
    output.report(*(f"warning: {fault}" for fault in file.faults), *_left_out(spec, file))
    return [*file.rules, *shipped_rules()]


def _left_out(path: Path, spec: "SpecFile") -> Iterator[str]:
    if spec.for_controller:
        phrases = ", ".join(spec.for_controller[:MOST_NAMED])
        more = ", …" if len(spec.for_controller) > MOST_NAMED else ""
        yield f"note: {path}: entries that are only for the platform's controller: {phrases}{more}"


def _exit_code(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST_CODE:
        raise argparse.ArgumentTypeError(f"expected an exit code from 0 to {MOST_CODE}, found '{text}'")
    return int(text)


def _signal(text: str) -> int:
    try:
        if text.isdecimal():
            return signal.Signals(int(text)).value
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"].value
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(
            f"expected a signal, such as 9, KILL or SIGKILL, found '{text}'"
        ) from None


def _read_logs(names: Sequence[str]) -> Logs:
    return read_logs(("standard input" if name == "-" else name, partial(_opened, name)) for name in names)


def _opened(name: str) -> BinaryIO:
    """Open a log; it may be a pipe, but not a device such as ``/dev/zero``, which has no end."""
    if name == "-":
        return open(0, "rb", closefd=False)
    path = Path(name)
    if path.is_char_device() and not name.startswith(_TERMINALS):
        raise OSError(EINVAL, "it is a device, and no log", name)
    return path.open("rb")
