"""What a server asks for is read as RFC 9110 writes it, and as servers do."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_pod.challenges import Challenge, parse_challenges

REALM = "https://auth.example/token"
SCOPE = "repository:x/y:pull,push"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], []),
        ([""], []),
        (["Basic"], [("basic", {})]),
        (['Basic realm="a registry"'], [("basic", {"realm": "a registry"})]),
        (
            [f'Bearer realm="{REALM}",service="a, b",scope="{SCOPE}"'],
            [("bearer", {"realm": REALM, "service": "a, b", "scope": SCOPE})],
        ),
        ([f"bearer REALM={REALM} , service=x"], [("bearer", {"realm": REALM, "service": "x"})]),
        (['Bearer realm = "a\\"b\\\\c"'], [("bearer", {"realm": 'a"b\\c'})]),
        (['Bearer realm=""'], [("bearer", {"realm": ""})]),
        (
            ['Basic realm="x", Bearer realm="y", Negotiate'],
            [("basic", {"realm": "x"}), ("bearer", {"realm": "y"}), ("negotiate", {})],
        ),
        (['Basic realm="x"', 'Bearer realm="y"'], [("basic", {"realm": "x"}), ("bearer", {"realm": "y"})]),
        (['realm="of nobody", Basic'], [("basic", {})]),
        (
            ['Bearer realm="never closed, Basic'],
            [("bearer", {"realm": ""}), ("never", {}), ("closed", {}), ("basic", {})],
        ),
    ],
)
def test_challenges_are_told_apart(headers: list[str], expected: list[tuple[str, dict[str, str]]]) -> None:
    assert parse_challenges(headers) == [Challenge(*each) for each in expected]


@pytest.mark.parametrize("piece", ["a ", 'a="b" ', "Bearer a=b,", 'a="', "\\", " "])
def test_a_header_of_any_length_takes_little_time_and_memory(piece: str) -> None:
    header = piece * (5_000_000 // len(piece))
    tracemalloc.start()
    try:
        parse_challenges(['Basic realm="x"', header, "Negotiate"])
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


_NAME = st.from_regex("[a-z]{1,8}", fullmatch=True)
_VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


@pytest.mark.parametrize("in_one", [True, False])
@given(st.lists(st.tuples(_NAME, st.dictionaries(_NAME, _VALUE, max_size=3)), max_size=4))
def test_what_is_written_by_the_rules_is_read_back(
    in_one: bool,  # noqa: FBT001 - of a table
    challenges: list[tuple[str, dict[str, str]]],
) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    written = [
        f"{scheme} " + ", ".join(f"{name}={quoted(value)}" for name, value in parameters.items())
        for scheme, parameters in challenges
    ]
    assert parse_challenges([", ".join(written)] if in_one else written) == [
        Challenge(*each) for each in challenges
    ]


@given(st.lists(st.text(), max_size=3))
def test_no_text_is_too_odd(headers: list[str]) -> None:
    for challenge in parse_challenges(headers):
        assert challenge.scheme


@pytest.mark.parametrize("piece", ["a", "a=", 'a="', "\\", '"\\', " ", "a ", ","])
def test_a_long_header_takes_no_longer_for_being_odd(piece: str) -> None:
    """As long as an answer may be; the test's time limit is the measure."""
    parse_challenges([piece * 200_000])
