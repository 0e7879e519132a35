"""Placeholders: how a text names a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_task.placeholders import fill, paths, placeholder, show

_VALUES = st.text(st.characters(exclude_characters="\0"))


@given(_VALUES, _VALUES, _VALUES)
def test_a_value_is_filled_in_as_it_is_and_never_looked_into(before: str, value: str, after: str) -> None:
    text = before + placeholder("y.0") + after
    assert fill(text, {"y.0": value, value: "never"}) == before + value + after


def test_placeholders_are_found_and_filled_in_lists_and_mappings() -> None:
    value = {"keys": [placeholder("a"), 1, None], "text": f"-{placeholder('b')}-", "flag": True}
    assert paths(value) == {"a", "b"}
    assert fill(value, {"a": "1", "b": "2"}) == {"keys": ["1", 1, None], "text": "-2-", "flag": True}


def test_a_secret_that_is_not_given_is_named() -> None:
    with pytest.raises(KeyError, match="token"):
        fill(placeholder("token"), {})


def test_people_see_the_reference() -> None:
    assert show(f"login {placeholder('user.name')}") == "login <% $secrets.user.name %>"


@pytest.mark.parametrize("space", ["", " ", "\t "])
def test_what_only_looks_like_a_reference_is_not_shown_as_one(space: str) -> None:
    text = f"<%{space}$secrets.s %> <% $parameters.p %>"
    assert show(text) == text.replace("<%", r"\x3c%", 1)
    assert show(text + placeholder("s")) == show(text) + "<% $secrets.s %>"
