"""``pai-runtime marketplace list`` and ``search``."""

import argparse
from collections.abc import Sequence
from typing import Any

from pai_definitions.marketplace.found import Found, found_in
from pai_definitions.marketplace.sources import given_sources
from pai_document.problems import Problems, near_miss
from pai_runtime.command.output import columns, report_problems, table, write_json, write_lines

_TITLES = ("NAME", "TYPE", "VERSION", "SOURCE", "SUMMARY")


def main(args: argparse.Namespace) -> int:
    """Return exit status 0; sources that fail are reported, and the others listed."""
    problems, words = Problems(), getattr(args, "words", ())
    everything = found_in(given_sources(args), args.source, problems)
    found = [each for each in everything if args.type in (None, each.listed.kind) and _has(each, words)]
    if args.json:
        write_json([as_json(each) for each in found])
    elif found:
        write_lines(table([_TITLES, *map(_row, found)], columns()))
    else:
        write_lines([_none(words, everything)])
    report_problems(problems.in_order)
    return 0


def _has(found: Found, words: Sequence[str]) -> bool:
    listed = found.listed
    text = f"{listed.name}\n{listed.title}\n{listed.summary}\n{listed.description}".casefold()
    return all(word.casefold() in text for word in words)


def _none(words: Sequence[str], everything: Sequence[Found]) -> str:
    names = [each.listed.name for each in everything]
    meant = next(filter(None, (near_miss(word, names) for word in words)), None)
    return "no definitions found" + (f"; did you mean {meant}?" if meant else "")


def reference_table(found: Sequence[Found]) -> list[str]:
    """Return the lines of a table of definitions of one name, with their references."""
    titles = ("REFERENCE", *_TITLES[1:])
    return table([titles, *((each.listed.reference, *_row(each)[1:]) for each in found)], columns())


def _row(found: Found) -> tuple[str, ...]:
    listed = found.listed
    source = f"{found.source} (hidden by {found.hidden_by})" if found.hidden_by else found.source
    return listed.name, listed.kind, listed.version, source, short(listed.summary or listed.title)


def as_json(found: Found) -> dict[str, Any]:
    """Return a definition of a list as a JSON object."""
    listed = found.listed
    return {
        "reference": listed.reference,
        "name": listed.name,
        "type": listed.kind,
        "version": listed.version,
        "source": found.source,
        "hiddenBy": found.hidden_by or None,
        "author": listed.author,
        "title": listed.title,
        "summary": listed.summary,
        "description": listed.description,
    }


_LONGEST = 200


def short(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: 10 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
