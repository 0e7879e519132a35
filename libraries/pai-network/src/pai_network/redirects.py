"""Redirects: a limited number is followed, and none takes credentials to another server."""

from collections.abc import Callable, Mapping
from typing import Final

from pai_document.url import joined_url, origin, shown_url
from pai_network.answer import Answer, NoAnswer
from pai_task.record import record

MOST_REDIRECTS: Final = 5

_REDIRECTS = (301, 302, 303, 307, 308)


@record(frozen=True)
class Received:
    """An answer, and the URL at which it was received after redirects."""

    answer: Answer
    url: str


def followed(
    url: str,
    headers: Mapping[str, str],
    ask: Callable[[str, Mapping[str, str]], Answer],
    may_lead: Callable[[str, str], bool],
) -> Received:
    """Return the final answer of `ask`, after following redirects that `may_lead` from one URL to another.

    Raises `NoAnswer`.
    """
    for _ in range(MOST_REDIRECTS + 1):
        answer = ask(url, headers)
        location = answer.headers.get("Location")
        if answer.status not in _REDIRECTS or location is None:
            return Received(answer, url)
        target = joined_url(url, location)
        if not may_lead(url, target):
            raise NoAnswer(f"it redirected to {shown_url(target)}, where it may not lead", permanent=True)
        if origin(target) != origin(url):
            headers = {name: value for name, value in headers.items() if name != "Authorization"}
        url = target
    raise NoAnswer(f"it redirected more than {MOST_REDIRECTS} times", permanent=True)
