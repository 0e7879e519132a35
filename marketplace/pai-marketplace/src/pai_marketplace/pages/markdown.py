"""Markdown that anybody may have written, as HTML that is safe to show."""

from collections.abc import Sequence
from typing import Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_FIRST_HEADING: Final = 3
"""Above it are the title of the page and that of its section."""
_LAST_HEADING: Final = 6

_TAGS: Final = {
    *("p", "br", "hr", "blockquote", "ul", "ol", "li", "pre", "code", "em", "strong", "s", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
    *(f"h{level}" for level in range(_FIRST_HEADING, _LAST_HEADING + 1)),
}
_PARSER: Final = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
"""An image would tell its server who looks at an item; of one, a link is left."""


def html(text: str) -> Markup:
    """Return Markdown as HTML for below a heading of level 2; HTML in it is shown as it is written."""
    tokens = _PARSER.parse(text)
    _place_headings(tokens)
    written = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return Markup(  # noqa: S704 - this is what makes it safe
        nh3.clean(
            written,
            tags=_TAGS,
            attributes={"a": {"href", "title"}, "ol": {"start"}},
            url_schemes={"http", "https", "mailto"},
            link_rel="nofollow noopener noreferrer",
        )
    )


def _place_headings(tokens: Sequence[Token]) -> None:
    """Let headings start below those of the page, and skip no level, as those who hear a page need it."""
    level = _FIRST_HEADING - 1
    for token in tokens:
        if token.type == "heading_open":
            level = min(_FIRST_HEADING - 1 + int(token.tag[1:]), level + 1, _LAST_HEADING)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{level}"
