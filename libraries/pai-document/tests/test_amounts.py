"""How many and how large, as people read it."""

import pytest

from pai_document.amounts import counted, size_text


@pytest.mark.parametrize(("number", "words"), [(0, "0 retries"), (1, "1 retry"), (2, "2 retries")])
def test_one_is_singular(number: int, words: str) -> None:
    assert counted(number, "retry", "retries") == words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (2 * 1024**3, "2.0 GiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_a_size_has_the_unit_in_which_it_is_readable(size: int, words: str) -> None:
    assert size_text(size) == words
