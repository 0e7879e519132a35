"""The parser of command lines: what it refuses, it refuses in one line that names what was probably meant."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any, Final, NoReturn

from pai_document.problems import near_miss
from pai_runtime.cli.help import HelpFormatter
from pai_runtime.terminal.output import columns, report, write_lines
from pai_task.exit_codes import CANNOT_RUN

_MOST_DIGITS: Final = 4
"""Maximum digits of a terminal's width, which anybody may have set to anything."""
_WIDTH: Final = 80


def hint(word: str, known: Iterable[str]) -> str:
    """Return a question for the known word that `word` was probably meant to be; empty without one."""
    meant = near_miss(word, known)
    return f" (did you mean {meant}?)" if meant else ""


class Parser(argparse.ArgumentParser):
    """A parser that prints help and errors through `terminal.output`, for its commands too.

    With a default for ``program``, that gets the words from ``--`` on, or from the first option after another
    word that is not the parser's own; all words before have been parsed then.
    """

    def __init__(self, *, group: str = "", **options: Any) -> None:
        self.group = group
        # Else argparse asks shutil for the width, for each option that it is told of.
        told = os.environ.get("COLUMNS", "").strip()
        width = (int(told) if told.isdecimal() and len(told) <= _MOST_DIGITS else 0) or columns() or _WIDTH
        super().__init__(formatter_class=partial(HelpFormatter, width=width - 2), **options)
        self._is_intermixed = False
        self.color = False  # Python 3.14 would put colours into the text

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse arguments, and refuse those that are unknown."""
        if self._is_intermixed:
            return super().parse_known_args(args, namespace)
        program: list[str] = []
        if self.get_default("program") is not None:
            args, program = self._without_program(args)
        # argparse has the outermost parser refuse what a command does not know, with that parser's name.
        known, unknown = self._parse_intermixed(args, namespace)
        if unknown:
            self.error("; ".join(self._unknown(unknown)))
        if program:
            known.program = program
        return known, unknown

    def _without_program(self, args: list[str]) -> tuple[list[str], list[str]]:
        with_value = {name for each in self._actions if each.nargs != 0 for name in each.option_strings}
        is_value = is_after_word = False
        for index, word in enumerate(args):
            if word == "--":
                return args[:index], args[index + 1 :]
            if is_value or not word.startswith("-"):
                is_after_word |= not is_value
                is_value = False
            elif word.partition("=")[0] in self._options():
                is_value = word in with_value
            elif is_after_word:
                return args[:index], args[index:]
        return args, []

    def _parse_intermixed(self, args: Any, namespace: Any) -> tuple[Any, list[str]]:
        """Parse options between arguments too (``logs RUN --tail 5 worker/0``), unless all is passed on."""
        is_passed_on = any(each.nargs in (argparse.PARSER, argparse.REMAINDER) for each in self._actions)
        ours = takewhile(lambda word: word.startswith("-"), args) if is_passed_on else args
        # Before argparse misses an argument that is required, which one of these may have been meant to be.
        if misspelt := list(self._misspelt(ours)):
            return namespace, misspelt
        if is_passed_on:
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True  # meanwhile argparse may call our own method, for parts of the arguments
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def _misspelt(self, args: Iterable[str]) -> Iterator[str]:
        """Yield the long options that there are not; with a space in it, a word is none to argparse."""
        for word in args:
            if word == "--":
                return
            option = word.partition("=")[0]
            is_long = option.startswith("--") and " " not in word
            if is_long and not any(name.startswith(option) for name in self._options()):
                yield word

    def _options(self) -> Iterable[str]:
        return [name for action in self._actions for name in action.option_strings]

    def _unknown(self, words: Iterable[str]) -> Iterator[str]:
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        for option in dict.fromkeys(options):
            yield f"there is no option {option}{hint(option, self._options())}"
        if not options:  # else these may be values of misspelt options
            yield f"unexpected argument: {' '.join(words)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(map(str, action.choices or ()))
        if choices and value not in choices:
            expected = f"expected {', '.join(choices)}, found {value!r}"
            raise argparse.ArgumentError(action, expected + hint(str(value), choices))

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002 - the signature is the base class's
        """Print the help to standard output."""
        write_lines(self.format_help().removesuffix("\n").split("\n"))

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and exit."""
        report(f"{self.prog}: {message.removeprefix('argument ')}; see {self.prog} --help")
        sys.exit(CANNOT_RUN)
