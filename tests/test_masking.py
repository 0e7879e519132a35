"""Masking: no secret in any stream, wherever it is split."""

from hypothesis import example, given
from hypothesis import strategies as st

from pai_runtime.task.masking import MASK, SHORTEST, Masker

# Few letters, so that secrets overlap, repeat and begin each other.
_SECRETS = st.lists(st.text("abx\n", min_size=1, max_size=8), max_size=4)
_TEXT = st.text("abx\n*", max_size=60)


@st.composite
def _pieces(draw: st.DrawFn) -> list[bytes]:
    text = draw(_TEXT).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _streamed(secrets: list[str], pieces: list[bytes]) -> bytes:
    masker = Masker(secrets)
    return b"".join([*(masker.feed(piece) for piece in pieces), masker.flush()])


@given(_SECRETS, _pieces())
@example(["abab", "ababx"], [b"ab", b"ab", b"x"])
@example(["aaaa"], [b"aaa", b"aaaa", b"a"])
def test_any_split_gives_what_the_whole_gives(secrets: list[str], pieces: list[bytes]) -> None:
    assert _streamed(secrets, pieces) == Masker(secrets).mask(b"".join(pieces))


@given(_SECRETS, _pieces())
def test_no_secret_is_in_the_output(secrets: list[str], pieces: list[bytes]) -> None:
    out = _streamed(secrets, pieces)
    for secret in secrets:
        if len(secret) >= SHORTEST:
            assert secret.encode() not in out


@given(_TEXT)
def test_without_secrets_every_byte_passes_at_once(text: str) -> None:
    assert Masker([]).feed(text.encode()) == text.encode()


def test_of_two_secrets_that_begin_alike_the_longer_one_is_masked() -> None:
    assert Masker(["password", "password-2"]).mask(b"is password-2!") == b"is " + MASK + b"!"


def test_what_cannot_be_the_start_of_a_secret_is_not_held_back() -> None:
    masker = Masker(["password"])
    assert masker.feed(b"epoch 1: 42%\r") == b"epoch 1: 42%\r"
    assert masker.feed(b"pass") == b""
    assert masker.feed(b"ing") == b"passing"


def test_very_short_values_do_not_blank_the_log() -> None:
    assert Masker(["", "1", "abc"]).mask(b"1 abc 1") == b"1 abc 1"
