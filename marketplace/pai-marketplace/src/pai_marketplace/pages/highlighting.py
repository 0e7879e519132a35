"""YAML in colours, line by line, so that messages can stand at the lines."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import YamlLexer

_LONGEST: Final = 64 * 1024
"""Characters beyond which a text is shown without colours, which take time."""
_LINE_ENDS: Final = str.maketrans({"\r": "\n"})


def lines_of(text: str) -> Sequence[str]:
    """Return the lines of a text as YAML counts them, without their ends."""
    lines = text.replace("\r\n", "\n").translate(_LINE_ENDS).split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def yaml_lines(text: str) -> Sequence[Markup]:
    """Return the lines of YAML, or of what was meant to be, as HTML with classes that start with ``y-``."""
    lines = lines_of(text)
    if len(text) <= _LONGEST:
        formatter = HtmlFormatter(nowrap=True, classprefix="y-")
        made = highlight("\n".join(lines), YamlLexer(stripnl=False, ensurenl=True), formatter).split("\n")
        coloured = [Markup(line) for line in made[:-1]]  # noqa: S704 - Pygments has escaped it
        if len(coloured) == len(lines):
            return coloured
    return [escape(line) for line in lines]
