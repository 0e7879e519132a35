"""Where a request may go: to no address that gives credentials away, and with none to another server."""

from collections.abc import Mapping
from email.message import Message

import pytest

from pai_network.answer import Answer, NoAnswer
from pai_network.link_local import is_link_local
from pai_network.redirects import MOST_REDIRECTS, followed

_LINK_LOCAL = [
    *("169.254.169.254", "169.254.169.254.", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376"),
    *("fe80::1", "fe80::1%eth0", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254"),
]
_OTHERS = ["127.0.0.1", "10.0.0.1", "::1", "example.org", "169.254.169.254.example.org"]


@pytest.mark.parametrize("expected", [True, False])
def test_an_address_that_gives_credentials_away_is_known_in_each_spelling(*, expected: bool) -> None:
    hosts = _LINK_LOCAL if expected else _OTHERS
    assert [host for host in hosts if is_link_local(host) is not expected] == []


def _answer(location: str | None) -> Answer:
    headers = Message()
    if location is not None:
        headers["Location"] = location
    return Answer(307 if location else 200, headers, b"")


@pytest.mark.parametrize(
    ("location", "is_told"),
    [("/there", True), ("http://one/there", True), ("https://one/", False), ("http://two/", False)],
)
def test_only_the_same_origin_is_told_who_asks(location: str, *, is_told: bool) -> None:
    asked: list[Mapping[str, str]] = []

    def ask(_: str, headers: Mapping[str, str]) -> Answer:
        asked.append(headers)
        return _answer(location if len(asked) == 1 else None)

    received = followed("http://one/", {"Authorization": "Bearer secret"}, ask, lambda _, __: True)
    assert received.answer.status == 200
    assert ["Authorization" in headers for headers in asked] == [True, is_told]


@pytest.mark.parametrize(("may_lead", "most"), [(False, 1), (True, MOST_REDIRECTS + 1)])
def test_what_redirects_to_nowhere_or_for_ever_gives_no_answer(most: int, *, may_lead: bool) -> None:
    asked: list[str] = []

    def ask(url: str, _: Mapping[str, str]) -> Answer:
        asked.append(url)
        return _answer("/again")

    with pytest.raises(NoAnswer) as caught:
        followed("http://one/", {}, ask, lambda _, __: may_lead)
    assert caught.value.permanent
    assert len(asked) == most
