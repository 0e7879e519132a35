"""A message to a webhook: as a JSON object, for Slack, or for Microsoft Teams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.request import HTTPRedirectHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pai_notify.message import Message


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: the message would go where nobody has asked for it."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, by which `urllib` raises the HTTPError."""


def post(given: Mapping[str, Any], message: Message, seconds: float) -> None:
    """Post a message to the webhook of the parameters. Raises OSError or ValueError."""
    url = given["url"]
    if not url.startswith(("http://", "https://")):
        raise ValueError(url)
    data = json.dumps(_FORMATS[given.get("format", "json")](message)).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "pai-runtime"}
    request = Request(url, data, headers, method="POST")  # noqa: S310 - see above
    with build_opener(_NoRedirects).open(request, timeout=seconds):
        pass  # the answer, of any length, is nobody's business


def slack(message: Message) -> dict[str, Any]:
    """Return the body for an incoming webhook of Slack: blocks whose texts are no markup."""
    facts = "\n".join(f"{name}: {value}" for name, value in message.facts.items())
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": message.title, "emoji": False}},
        {"type": "section", "text": {"type": "plain_text", "text": facts[:2900], "emoji": False}},
    ]
    if message.lines:
        text = {"type": "text", "text": message.lines}
        preformatted = {"type": "rich_text_preformatted", "elements": [text]}
        blocks.append({"type": "rich_text", "elements": [preformatted]})
    escaped = message.title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped, "blocks": blocks}


def teams(message: Message) -> dict[str, Any]:
    """Return the body for a workflow of Teams: an Adaptive Card whose texts are no markup.

    They are so in a `RichTextBlock` only; a `TextBlock` and a `FactSet` read Markdown.
    """
    body = [_rich(message.title, weight="Bolder", size="Medium")]
    body += [_rich(f"{name}: {value}") for name, value in message.facts.items()]
    if message.lines:
        body.append(_rich(message.lines, fontType="Monospace", size="Small"))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _rich(text: str, **style: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


def _whole(message: Message) -> dict[str, Any]:
    return message.document


_FORMATS: Mapping[str, Callable[[Message], dict[str, Any]]] = {"json": _whole, "slack": slack, "teams": teams}
