"""Data as YAML in block style, with comments, as a person would write it.

What is written for people to keep is written here, by ruamel.yaml. The same data gives the same bytes.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString, PlainScalarString

from pai_document.document import plain_scalar
from pai_document.printable import printable
from pai_document.problems import DocumentPath

_INDENT = 2
_WIDTH = 100
"""Columns of comments; what is data has lines of any length."""

Comments = Mapping[DocumentPath, Sequence[str]]


def yaml_lines(
    document: Mapping[str, Any] | Sequence[Any],
    comments: Comments | None = None,
    *,
    indents_lists: bool = True,
) -> Iterator[str]:
    """Return the lines of a document; each of the `comments` stands before what is at its path.

    What is not seen is escaped. Without `indents_lists`, the dashes of a list are below the key that it has.
    """
    text = io.StringIO()
    offset = _INDENT if indents_lists else 0
    writer = _Writer()
    writer.indent(mapping=_INDENT, sequence=_INDENT + offset, offset=offset)
    writer.dump(_Styled(comments or {}, offset).value(document, (), 0), text)
    # By then, only what is in double quotes can have something to be escaped.
    return map(printable, text.getvalue().removesuffix("\n").split("\n"))


class _Writer(YAML):
    """Writes what it is given as it is: without anchors, and without folding lines."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 1 << 30
        self.representer.ignore_aliases = lambda _: True
        self.representer.add_representer(type(None), _represent_none)

    def official_plug_ins(self) -> list[str]:
        """None: it imports what any distribution has put into its package."""
        return []


def _represent_none(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


class _Styled:
    """Makes of data what ruamel.yaml writes in the style that we want."""

    def __init__(self, comments: Comments, offset: int) -> None:
        self._comments = comments
        self._offset = offset

    def value(self, data: Any, path: DocumentPath, column: int) -> Any:
        """Return the data at a path, whose keys or dashes are at a column."""
        if isinstance(data, str):
            return _text(data)
        made: Any
        if isinstance(data, Mapping):
            made = CommentedMap()
            for key, each in data.items():
                inner = column + (_INDENT if isinstance(each, Mapping) else self._offset)
                made[_text(key)] = self.value(each, (*path, key), inner)
        elif isinstance(data, (list, tuple)):
            made = CommentedSeq()
            made += [self.value(each, (*path, index), column + _INDENT) for index, each in enumerate(data)]
        else:
            return data
        for key in data if isinstance(data, Mapping) else range(len(data)):
            if texts := self._comments.get((*path, key)):
                lines = "\n".join(line for text in texts for line in _wrapped(text))
                made.yaml_set_comment_before_after_key(key, before=lines, indent=column)
        if not made:
            made.fa.set_flow_style()
        return made


def _wrapped(text: str) -> list[str]:
    return wrap(printable(text), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _text(text: str) -> Any:
    """Return a text in the plainest style in which it is read, and seen, as it is."""
    if printable(text.replace("\n", "")) != text.replace("\n", ""):
        return DoubleQuotedScalarString(text)
    lines = text.removesuffix("\n").split("\n")
    if len(lines) > 1 and lines[0].strip() and lines[0][0] not in " \t" and lines[-1].strip():
        return LiteralScalarString(text)
    if "\n" in text or "\t" in text or not isinstance(plain_scalar(text), str):
        return DoubleQuotedScalarString(text)
    return PlainScalarString(text)
