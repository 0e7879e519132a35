"""Masking: no secret in any stream, wherever it is split, in any form that tools print it in."""

import base64
import json
import os
import shlex
import subprocess
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pai_task import masking
from pai_task.masking import MASK, SHORTEST, Masker, Masks
from tests.task_harness import TaskRun, make_fifo, plan

# Few letters, so that secrets overlap, repeat and begin each other.
_SECRETS = st.lists(st.text("abx\n", min_size=1, max_size=8), max_size=4)
_TEXT = st.text("abx\n\r*", max_size=60)


@st.composite
def _pieces(draw: st.DrawFn) -> list[bytes]:
    text = draw(_TEXT).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _streamed(secrets: list[str], pieces: list[bytes]) -> bytes:
    masker = Masker(Masks(secrets))
    return b"".join([*(masker.feed(piece) for piece in pieces), masker.flush()])


def _masked(secret: str, text: str) -> str:
    return Masks([secret]).mask(text)


@given(_SECRETS, _pieces())
@example(["abab", "ababx"], [b"ab", b"ab", b"x"])
@example(["aaaa"], [b"aaa", b"aaaa", b"a"])
def test_any_split_gives_what_the_whole_gives(secrets: list[str], pieces: list[bytes]) -> None:
    assert _streamed(secrets, pieces) == _streamed(secrets, [b"".join(pieces)])


def _by_definition(secrets: list[str], text: bytes) -> bytes:
    """Every byte of every form is masked, those that overlap as one; line breaks stay."""
    places = [place for place, byte in enumerate(text) if byte not in b"\r\n"]
    joined = bytes(text[place] for place in places)
    forms = Masks(secrets).forms
    found = sorted(
        (start, start + len(form))
        for form in forms
        for start in range(len(joined))
        if joined.startswith(form, start)
    )
    out, done, masked = b"", 0, 0
    for start, end in found:
        if start >= masked:
            out += text[done : places[start]] + MASK
            done = places[start]
        if end > masked:
            stop = places[end - 1] + 1
            out += bytes(byte for byte in text[done:stop] if byte in b"\r\n")
            done, masked = stop, end
    return out + text[done:]


@given(_SECRETS, _pieces())
@example(["abxabxab"], [b"abxab", b"xabxab", b"xab"])
@example(["xxbb", "bbaa"], [b"xxb", b"b\naaxxbb", b"aa"])
def test_a_stream_is_masked_as_the_definition_says(secrets: list[str], pieces: list[bytes]) -> None:
    assert _streamed(secrets, pieces) == _by_definition(secrets, b"".join(pieces))


@pytest.mark.parametrize("few", [0, masking._FEW], ids=["searched by words", "searched one by one"])
@pytest.mark.parametrize("most_words", [0, masking._MOST_WORDS], ids=["small steps", "large steps"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_forms_of_all_lengths_are_found_at_all_positions(
    monkeypatch: pytest.MonkeyPatch, few: int, most_words: int, data: st.DataObject
) -> None:
    monkeypatch.setattr(masking, "_FEW", few)
    monkeypatch.setattr(masking, "_MOST_WORDS", most_words)
    value = data.draw(st.text("ab", min_size=SHORTEST, max_size=90))
    others = [value[:size] + "c" for size in data.draw(st.lists(st.integers(3, 90), max_size=3))]
    text = f"{data.draw(st.text('abc', max_size=80))}{value}{data.draw(st.text('abc', max_size=20))}".encode()
    cut = data.draw(st.integers(0, len(text)))
    secrets = [value, *others]
    assert _streamed(secrets, [text[:cut], text[cut:]]) == _by_definition(secrets, text)


@given(st.lists(st.text("ab", max_size=90), max_size=4), st.text("ab", max_size=90))
def test_values_that_become_known_one_by_one_are_masked_as_if_all_had_been_known(
    secrets: list[str], more: str
) -> None:
    masks = Masks([])
    for secret in secrets:
        masks.add([secret])
    text = more.join(["", *secrets, ""])
    assert masks.mask(text).encode() == _by_definition(secrets, text.encode())


@given(_SECRETS, _pieces())
def test_no_secret_is_in_the_output_with_or_without_line_breaks(
    secrets: list[str], pieces: list[bytes]
) -> None:
    out = _streamed(secrets, pieces).translate(None, b"\r\n")
    for secret in secrets:
        value = secret.replace("\n", "").encode()
        if len(value) >= SHORTEST:
            assert value not in out


@given(st.lists(st.text("xyz\n", min_size=4), max_size=3), _pieces())
def test_what_holds_no_secret_is_not_changed(secrets: list[str], pieces: list[bytes]) -> None:
    text = b"".join(pieces).replace(b"x", b"-")
    forms = [form for form in Masks(secrets).forms if form in text.translate(None, b"\r\n")]
    if not forms:
        assert _streamed(secrets, [text]) == text


@given(_SECRETS, _pieces())
def test_what_is_given_out_when_nothing_comes_is_given_out_once(
    secrets: list[str], pieces: list[bytes]
) -> None:
    masker = Masker(Masks(secrets))
    out = b"".join([*(masker.feed(piece) + masker.idle() for piece in pieces), masker.flush()])
    plain = b"".join(pieces)
    if not any(form in plain.translate(None, b"\r\n") for form in Masks(secrets).forms):
        assert out == plain


@given(st.text(min_size=SHORTEST, max_size=30), st.binary(max_size=5), st.binary(max_size=5))
def test_base64_is_masked_at_any_alignment(secret: str, before: bytes, after: bytes) -> None:
    coded = base64.b64encode(before + secret.encode() + after).decode()
    middle = base64.b64encode(bytes(len(before)) + secret.encode())[-(-8 * len(before) // 6) :]
    stable = middle[: 8 * (len(before) + len(secret.encode())) // 6 - -(-8 * len(before) // 6)].decode()
    if len(secret.replace("\n", "").replace("\r", "").encode()) >= SHORTEST:
        assert stable not in _masked(secret, coded).replace("\n", "")


_NET = {ord(character): f"\\u{ord(character):04X}" for character in "&<>'+`"}
_HARD = 'it\'s a "pass"/word: $HOME `id` 100% & b\u00e4ck\\slash'


@pytest.mark.parametrize(
    "form",
    [
        _HARD,
        quote(_HARD, safe=""),
        quote(_HARD),
        quote_plus(_HARD),
        json.dumps(_HARD),
        json.dumps(_HARD, ensure_ascii=False),
        json.dumps(_HARD).replace("\\u00e4", "\\u00E4"),
        json.dumps(_HARD).replace("&", "\\u0026"),
        json.dumps(_HARD, ensure_ascii=False).replace("&", "\\u0026").replace("'", "\\u0027"),
        json.dumps(_HARD).replace("/", "\\/"),
        json.dumps(_HARD)
        .replace("\\u00e4", "\\u00E4")
        .translate(_NET)
        .replace('\\"p', "\\u0022p")
        .replace('s\\"', "s\\u0022"),
        base64.b64encode(json.dumps({"key": _HARD}).encode()).decode(),
        ascii(_HARD).replace("xe4", "xE4"),
        urlencode({"a": _HARD + "~*"}).replace("~", "%7E").replace("%2A", "*"),
        shlex.quote(_HARD),
        base64.b64encode(_HARD.encode()).decode(),
        base64.urlsafe_b64encode(_HARD.encode()).decode(),
        base64.b64encode(f"user:{_HARD}".encode()).decode(),
        base64.encodebytes(("padding " * 9 + _HARD).encode()).decode(),
        "\n".join(_HARD),
    ],
)
def test_a_form_that_a_tool_prints_is_masked(form: str) -> None:
    masked = _masked(_HARD, f"<{form}>").replace("\n", "")
    assert MASK.decode() in masked
    for part in ("pass", "id", base64.b64encode(b"pass").decode()[:-2]):
        assert part not in masked


@pytest.mark.process
@pytest.mark.parametrize("show", ['printf %q "$V"', "declare -p V", "export -p", 'set -x; : "$V"'])
def test_a_form_that_bash_prints_is_masked(show: str) -> None:
    ended = subprocess.run(
        ["bash", "-c", f"{{ {show}; }} 2>&1 | grep pass"],
        env={"V": _HARD, "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
        text=True,
    )
    assert "pass" not in _masked(_HARD, ended.stdout)


@pytest.mark.process
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize(
    "value", ["\xe9\x85 pass$", "\xe9\u0382 pass$", "\xe9\u200b\t pass$", "\u2028\xe9\u3000pass' $"]
)
def test_what_bash_cannot_print_is_masked_as_it_writes_it(locale: str, value: str) -> None:
    argv = ["bash", "-c", 'printf %q "$1"; declare -p 1 2> /dev/null; printf %s "${1@Q}"', "", value]
    ended = subprocess.run(
        argv, env={"LC_ALL": locale, "PATH": os.environ["PATH"]}, capture_output=True, check=True
    )
    assert "pass" not in _masked(value, os.fsdecode(ended.stdout))


@pytest.mark.parametrize("line", ["%^&*()!@#$", "&&&&&&&&||;;<<"])
def test_a_line_of_symbols_is_masked_on_its_own_and_a_rule_is_not(line: str) -> None:
    secret = f"first-line\n{line}\n--------------\nlast-line"
    assert _masked(secret, f"x {line} y\n") == "x ****** y\n"
    assert _masked(secret, "--------------\n") == "--------------\n"


def test_a_secret_of_several_lines_is_masked_and_the_line_breaks_stay() -> None:
    key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----\n"
    assert _masked(key, f"x\n{key}y\n") == "x\n******\n\n\n\ny\n"
    assert _masked(key, key.replace("\n", "\r\n")) == "******\r\n\r\n\r\n\r\n"


def test_of_two_secrets_that_begin_alike_the_longer_one_is_masked() -> None:
    assert Masks(["password", "password-2"]).mask("is password-2!") == "is ******!"


def test_what_cannot_be_the_start_of_a_secret_is_not_held_back() -> None:
    masker = Masker(Masks(["password"]))
    assert masker.feed(b"epoch 1: 42%\r") == b"epoch 1: 42%\r"
    assert masker.feed(b"pass") == b""
    assert masker.feed(b"ing") == b"passing"


def test_a_few_bytes_do_not_wait_for_more_and_the_rest_of_a_secret_is_masked_all_the_same() -> None:
    masker = Masker(Masks(["password"]))
    assert masker.feed(b"stop\n") == b"sto"
    assert masker.idle() == b"p\n"
    assert masker.feed(b"next p") == b"next "
    assert masker.idle() == b"p"
    assert masker.feed(b"assword!") == b"******!"


def test_line_breaks_without_end_are_not_held_back_behind_the_start_of_a_secret() -> None:
    masker = Masker(Masks(["password"]))
    assert masker.feed(b"p") == b""
    given = sum(len(masker.feed(b"\n" * 1000)) for _ in range(100))
    assert given > 80_000
    assert masker.feed(b"password!")[-7:] == b"******!"


def test_any_text_can_be_masked() -> None:
    assert Masks(["password"]).mask("\ud800 \udcff password") == r"\ud800 \udcff ******"


def test_a_value_that_becomes_known_is_masked_from_then_on() -> None:
    masks = Masks([])
    masker = Masker(masks)
    assert masker.feed(b"token-1 ") == b"token-1 "
    masks.add(["token-1"])
    assert masker.feed(b"token-1\n") == b"******\n"


def test_very_short_values_do_not_blank_the_log() -> None:
    assert Masks(["", "1", "abc"]).mask("1 abc 1") == "1 abc 1"


@pytest.mark.process
def test_a_prompt_appears_while_the_command_waits(tmp_path: Path) -> None:
    make_fifo(tmp_path, "gate")
    run = TaskRun(plan(tmp_path, "printf 'go o'; cat gate; echo n"), secrets={"y": "open sesame"})
    assert run.process.stdout is not None
    shown = b""
    while shown != b"go o":
        shown += run.process.stdout.read(1)
    (tmp_path / "work" / "gate").write_text("")
    assert run.end() == 0
