"""Diagnoses of the commonest mistakes in invalid YAML: what was probably meant, and how to fix it.

A message shows nothing of the text but commands: everything else in a file may be a secret.
"""

import re
from collections.abc import Iterator
from typing import Final

from pai_document.problems import Problem
from pai_document.secret_names import names_secret
from pai_document.value import Source
from pai_task.record import record

_BEGINS: Final = {
    "*": "an alias",
    "&": "an anchor",
    "!": "a tag",
    "[": "a list",
    "{": "a mapping",
    "|": "a block of text",
    ">": "a block of text",
    "#": "a comment",
    "-": "a list item",
    "?": "a key",
}
_BEGINS_NOTHING: Final = frozenset("%@`,]}")
_LONGEST_QUOTED: Final = 300
_MOST_LINES: Final = 10_000
_NAMED_VALUE = re.compile(r"""--[\w-]+|[\w-]+(?=["']?\s?[=:])""")

_ITEM = re.compile(r"( *)- +(\S.*)")
_FIRST_KEY = re.compile(r""" *(?:- +)*[^\s'"#-][^#]*?:\s""")
_NO_SPACE = re.compile(r" *(?:- +)*(?:[\w.-]+:(?!//)(?=\S)|-(?=[\w./$\"']))")
_NO_SPACE_AGAIN = re.compile(r"\s(-|[\w.-]+:)\S")
_DASHES = re.compile(r" *(?:- +)*")


@record(frozen=True)
class Fault:
    """A syntax error: the parser's message, and the index of the character at which it gave up.

    `context` is the index at which the construct being read begins. `commands` is the column, from 0, of the
    enclosing list of commands, `bracket` the index of the innermost open bracket, `quoted` the start and end
    index of the quoted scalar that was read last; each is None if there is none.
    """

    source: Source
    says: str
    index: int
    context: int
    commands: int | None
    bracket: int | None
    quoted: tuple[int, int] | None

    @property
    def character(self) -> str:
        """The character at which the parser gave up; empty at the end of the text."""
        return self.source.text[self.index : self.index + 1]

    def problem(
        self,
        code: str,
        message: str,
        at: int | None = None,
        found: str | None = None,
        expected: str | None = None,
    ) -> Problem:
        """Return a problem at the character with index `at`; by default, where the parser gave up."""
        position = self.source.position(self.index if at is None else at)
        return Problem(code, message, position, found=found, expected=expected)


def syntax_problem(fault: Fault) -> Problem:
    """Return the most specific diagnosis of a syntax error, or the parser's own message."""
    for diagnosis in (_tab, _quote, _command, _escape, _start, _colon, _bracket, _indentation):
        if problem := diagnosis(fault):
            return problem
    return fault.problem("not-yaml", f"invalid YAML: {fault.says}")


def needs_quotes(text: str) -> str | None:
    """Return why an unquoted text is not read as a string of the same characters; None if it is."""
    first = text[:1]
    if first in ("'", '"'):
        return "the text in quotes ends before the end of the line"
    if first in _BEGINS and not re.match(r"-\S|\?\S", text):
        return f"in YAML, '{first}' at the start begins {_BEGINS[first]}"
    if first in _BEGINS_NOTHING:
        return f"in YAML, no text starts with '{first}'"
    if re.search(r":(\s|$)", text):
        return "in YAML, ': ' makes it a mapping"
    return None


def quoted(text: str) -> str | None:
    """Return a text as a quoted YAML scalar; None if it is too long, or may contain a secret."""
    if len(text) > _LONGEST_QUOTED or any(map(names_secret, _NAMED_VALUE.findall(text))):
        return None
    if "'" in text and not set('"\\') & set(text):
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"


def command_problem(source: Source, index: int, column: int) -> Problem | None:
    """Return the problem that the command in the line of `index` needs quotes; None if there is no such."""
    line = source.position(index).line
    item = _ITEM.fullmatch(source.line(line))
    if item is None or len(item[1]) != column:
        return None
    text = item[2].rstrip()
    why, fixed = needs_quotes(text), quoted(text)
    if why is None:
        return None
    position = source.position(source.start_of(line) + item.start(2))
    suggestion = fixed and f"- {fixed}"
    return Problem("needs-quotes", f"{why}; put the command in quotes", position, suggestion=suggestion)


def meant_as_text(written: str) -> tuple[str, str | None]:
    """Return why an item, given with its dash, is not read as a string, and how to write it as one."""
    dash, text = ("- ", written[2:]) if written.startswith("- ") else ("", written)
    why, fixed = needs_quotes(text), quoted(text)
    if text.startswith("#"):
        return f"{why}; remove the '-'", fixed and text
    return f"{why}; put it in quotes" if why else "put it in quotes", fixed and dash + fixed


def missing_space(text: str) -> tuple[str, str | None]:
    """Return which space a ``key:value`` or ``-item`` lacks, and how to write it; ("", None) if none."""
    match = _NO_SPACE.match(text)
    if match is None:
        return "", None
    rest = text[match.end() :]
    is_one = not (_NO_SPACE_AGAIN.search(rest) or "\t" in rest or needs_quotes(rest))
    meant = f"{match[0]} {rest}" if is_one else None
    return f"a space is missing after '{match[0][-1]}'", meant


def _tab(fault: Fault) -> Problem | None:
    if fault.character != "\t" or not ("tab" in fault.says or "cannot start any token" in fault.says):
        return None
    message = "a tab cannot indent in YAML; use spaces"
    return fault.problem("tab", message, found="a tab", expected="spaces")


def _quote(fault: Fault) -> Problem | None:
    source, text = fault.source, fault.source.text
    if text[fault.context : fault.context + 1] in ("'", '"') and "unexpected" in fault.says:
        line = source.position(fault.context).line
        if fault.commands is not None and text[source.start_of(line) : fault.context].strip(" -"):
            return None  # it is inside a command
        return fault.problem("unclosed-quote", "the quote that opens here is never closed", fault.context)
    if fault.quoted is None:
        return None
    start, end = fault.quoted
    first, last = source.position(start), source.position(end)
    if first.line == last.line or text[end : fault.index].strip(" "):
        return None
    message = f"the quote that opens here closes only at {last.line}:{last.column - 1}, and more text follows"
    return fault.problem("unclosed-quote", message, start)


def _command(fault: Fault) -> Problem | None:
    if fault.commands is None:
        return None
    found = (command_problem(fault.source, index, fault.commands) for index in (fault.index, fault.context))
    return next(filter(None, found), None) or _long_command(fault)


def _long_command(fault: Fault) -> Problem | None:
    """Diagnose an unquoted command over several lines that contains ``: ``."""
    source, last = fault.source, fault.source.position(fault.index).line
    for number in range(last - 1, max(0, last - _MOST_LINES), -1):
        line = source.line(number)
        item = _ITEM.fullmatch(line)
        if item and len(item[1]) == fault.commands:
            break
        if line.strip() and _margin(line) <= (fault.commands or 0):
            return None
    else:
        return None
    lines = [item[2], *map(source.line, range(number + 1, last + 1))]
    if lines[0][0] in "|>" or not any(re.search(r":(\s|$)", line) for line in lines):
        return None
    message = (
        "in YAML, ': ' makes it a mapping; start the command with '- |', and indent its lines below that"
    )
    return Problem("needs-quotes", message, source.position(source.start_of(number) + item.start(2)))


def _escape(fault: Fault) -> Problem | None:
    if "unknown escape" not in fault.says:
        return None
    at = fault.index if fault.character == "\\" else fault.index - 1
    message = "unknown escape in double quotes; double the backslash, or use single quotes"
    return fault.problem("unknown-escape", message, at)


def _start(fault: Fault) -> Problem | None:
    """Diagnose an indicator character, such as ``*`` or ``%``, at the start of unquoted text."""
    is_reserved = "cannot start any token" in fault.says
    at = fault.index if is_reserved else fault.context
    first = fault.source.text[at : at + 1]
    why = needs_quotes(first) if is_reserved or (first in {*"*&!|>"} and at != fault.index) else None
    return fault.problem("needs-quotes", f"{why}; put the text in quotes", at) if why else None


def _colon(fault: Fault) -> Problem | None:
    """Diagnose a ``:`` too many or missing, or one without a space after it."""
    is_many = "mapping values" in fault.says
    if not is_many and "could not find expected ':'" not in fault.says:
        return _second_colon(fault)
    at = fault.source.position(fault.index if is_many else fault.context)
    line = fault.source.line(at.line)
    if is_many and _FIRST_KEY.match(line[: at.column - 1]):
        return fault.problem("needs-quotes", "the value contains ': '; put it in quotes")
    # Without its space, a key is a text, which goes on in the next line.
    suspect = max(1, at.line - 1) if is_many else at.line
    if match := _NO_SPACE.match(fault.source.line(suspect)):
        message = f"a space is missing after '{match[0][-1]}'"
        return fault.problem("missing-space", message, fault.source.start_of(suspect) + match.end())
    if is_many:
        return _wrong_column(fault, fault.source.start_of(at.line) + _margin(line))
    return fault.problem("missing-colon", "expected 'key: value' or '- item'; found neither", fault.context)


def _second_colon(fault: Fault) -> Problem | None:
    if fault.character != ":" or fault.bracket is None:
        return None
    if fault.source.position(fault.bracket).line != fault.source.position(fault.index).line:
        return None
    return fault.problem("needs-quotes", "the value contains ': '; put it in quotes")


def _bracket(fault: Fault) -> Problem | None:
    if fault.bracket is not None:
        opened, at = fault.source.text[fault.bracket], fault.source.position(fault.index)
        closing = "}" if opened == "{" else "]"
        message = f"'{opened}' is not closed; expected ',' or '{closing}' at {at.line}:{at.column}"
        return fault.problem("unclosed-bracket", message, fault.bracket)
    if fault.character and fault.character in "]}":
        message = f"'{fault.character}' closes nothing; put text that contains it in quotes"
        return fault.problem("unopened-bracket", message)
    return None


def _indentation(fault: Fault) -> Problem | None:
    if not re.search(r"expected (key|'-' indicator|<block end>)", fault.says):
        return None
    at = fault.source.position(fault.index)
    if _margin(fault.source.line(at.line)) < at.column - 1:
        return fault.problem("needs-quotes", "the value ends before this text; put all of it in quotes")
    return _wrong_column(fault, fault.index)


def _wrong_column(fault: Fault, index: int) -> Problem | None:
    """Diagnose a line whose indentation matches none of the blocks that it could belong to."""
    at = fault.source.position(index)
    columns: dict[int, int] = {}
    for column, line in _columns_above(fault.source, at.line):
        columns.setdefault(column, line)
    if not columns:
        return None
    nearest = min(columns, key=lambda column: (abs(column - at.column), -column))
    line = columns[nearest]
    if nearest == at.column:
        one, other = ("list item", "key") if fault.character == "-" else ("key", "list item")
        message = f"wrong indentation: a {one} in the same column as the {other} in line {line}"
        return fault.problem("wrong-indentation", message, index)
    expected, found = f"column {nearest}, as in line {line}", f"column {at.column}"
    message = f"wrong indentation: expected {expected}, found {found}"
    return fault.problem("wrong-indentation", message, index, expected=expected, found=found)


def _columns_above(source: Source, line: int) -> Iterator[tuple[int, int]]:
    """Yield the start columns of the blocks open above a line, innermost first, each with a line number."""
    limit = 1 << 30
    for number in range(line - 1, max(0, line - _MOST_LINES), -1):
        text = source.line(number)
        margin = _margin(text)
        if margin >= limit or not text.strip() or text.lstrip().startswith("#"):
            continue
        dashes = [match.start() for match in re.finditer("-", _dashes(text))]
        content = len(_dashes(text))
        yield from ((column + 1, number) for column in (content, *reversed(dashes)) if column < limit)
        limit = margin
        if not margin:
            return


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _dashes(line: str) -> str:
    match = _DASHES.match(line)
    return match[0] if match else ""
