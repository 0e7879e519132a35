"""``pai-runtime diff``: what differs between two runs: job, settings, commit, plugins, outcome."""

import argparse
import difflib
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pai_runtime.command.arguments import RUN_HELP, add_on
from pai_runtime.command.output import say, some, write_lines
from pai_runtime.command.runs import LATEST, NotThere, Provenance, given_run, part, settings
from pai_runtime.plugin import Output

_CANNOT_RUN: Final = 2
_DIFFERENT = 1
_MOST_LINES = 400
_ABSENT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("first", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "second", nargs="?", default=LATEST, metavar="RUN", help="the other run (default: latest)"
    )
    add_on(
        parser, "the runs are on the cluster of this engine profile (engines.yaml), except for paths with a /"
    )


def main(args: argparse.Namespace, _: Output) -> int:
    """Return exit status 0 if nothing differs, 1 if something does, 2 if it is not known."""
    try:
        first, second = (_of(name, args.on) for name in (args.first, args.second))
    except NotThere as error:
        say(f"{error}")
        return _CANNOT_RUN
    lines = list(_differences(first, second))
    write_lines(lines or ["nothing differs that is known of these runs"])
    return _DIFFERENT if lines else 0


def _of(name: str, on: str | None) -> tuple[Provenance, Mapping[str, str]]:
    """Return where a run came from, and what else is told of it. Raises `NotThere`."""
    reader, run = given_run("diff", name, None if os.sep in name else on)
    if not (found := reader.provenance()):
        raise NotThere(f"it is not known where the run {reader.named} came from")
    codes = [f"{task.name} {task.exit_code}" for task in run.tasks if task.exit_code]
    return found, {"outcome": run.word, "exit codes": some(codes)}


def _differences(
    first: tuple[Provenance, Mapping[str, str]], second: tuple[Provenance, Mapping[str, str]]
) -> Iterator[str]:
    (one, told_one), (two, told_two) = first, second
    yield from _fields("set ", settings(one), settings(two))
    yield from _fields("", _facts(one), _facts(two))
    yield from _fields("plugin ", _plugins(one), _plugins(two))
    yield from _fields("image ", _images(one), _images(two))
    yield from _job(part(one, "job"), part(two, "job"))
    yield from _fields("", told_one, told_two)


def _fields(prefix: str, one: Mapping[str, str], two: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*one, *two)):
        before, after = one.get(name) or _ABSENT, two.get(name) or _ABSENT
        if before != after:
            yield f"{prefix}{name}: {before} → {after}"


def _facts(found: Provenance) -> dict[str, str]:
    commit = part(found, "commit")
    words = found.get("arguments")
    texts = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    skipped = {index + 1 for index, word in enumerate(texts) if word in ("--set", "--role-instances")}
    skipped |= {index - 1 for index in skipped}
    others = [word for index, word in enumerate(texts) if index and index not in skipped]
    dirty = ", with changes" if commit.get("dirty") else ""
    return {
        "runtime": str(found.get("runtime") or ""),
        "commit": f"{commit['id']}{dirty}" if commit.get("id") else "",
        "options": " ".join(others),
        "job file": str(part(found, "job").get("file") or ""),
    }


def _plugins(found: Provenance) -> dict[str, str]:
    listed = found.get("plugins")
    plugins = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    keys = ("distribution", "version", "digest")
    return {
        str(each.get("id")): " ".join(str(each[key]) for key in keys if each.get(key)) for each in plugins
    }


def _images(found: Provenance) -> dict[str, str]:
    return {name: str(image) for name, image in part(found, "images").items()}


def _job(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[str]:
    texts = one.get("text"), two.get("text")
    if isinstance(texts[0], str) and isinstance(texts[1], str):
        before, after = (text.splitlines()[: _MOST_LINES * 10] for text in texts if isinstance(text, str))
        found = list(difflib.unified_diff(before, after, "job", "job", n=1, lineterm=""))
        yield from found[2:_MOST_LINES]
    elif one.get("digest") != two.get("digest"):
        yield "the job files differ; they are not kept, since there are secrets in them"
