"""YAML in colours, line by line, so that messages can stand at the lines."""

import re
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import YamlLexer

_LONGEST: Final = 64 * 1024
"""Characters beyond which a text is shown without colours, which take time."""
_LINE_END: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def lines_of(text: str) -> Sequence[str]:
    """Return the lines of a text as positions in YAML count them, without their ends."""
    lines = _LINE_END.split(text)
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def yaml_lines(text: str) -> Sequence[Markup]:
    """Return the lines of YAML, or of what was meant to be, as HTML with classes that start with ``y-``."""
    lines = lines_of(text)
    if len(text) <= _LONGEST:
        formatter = HtmlFormatter(nowrap=True, classprefix="y-")
        made = highlight("\n".join(lines), YamlLexer(stripnl=False, ensurenl=True), formatter).split("\n")
        if len(made) == len(lines) + 1:
            return [Markup(line) for line in made[:-1]]  # noqa: S704 - Pygments has escaped it
    return [escape(line) for line in lines]
