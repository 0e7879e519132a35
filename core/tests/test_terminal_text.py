"""What programs write is shown in one line each, whatever is in it."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_runtime.terminal.table import table
from pai_runtime.terminal.text import columns_of, cut, message, shown_line

NEWER_OR_JOINED = re.compile(
    "[\u1160-\u11ff\ud7b0-\ud7fb\u302e\u302f\u3164\uffa0\U00016ff0-\U00016ff1]"  # parts, and fillers
    "|[\u2630-\u2637\u268a-\u268f\u4dc0-\u4dff\U0001d300-\U0001d376]"  # wide since Unicode 16
    "|[\U0001f1e6-\U0001f1ff]"  # two of them are a flag
)
"""Of these, Unicode's tables do not say it, or those of older Pythons."""


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"epoch 3", "epoch 3"),
        ("größer 日本 😀".encode(), "größer 日本 😀"),
        (b"\xff\xfe!", "\ufffd\ufffd!"),
        (b" 10%\r 20%\r 30%", " 30%"),
        (b"done\r", "done"),
        (b"\r  \r", ""),
        (b"a\tb", "a       b"),
        (b"a\x00\x07\x08\x0bb\x7f", "ab"),
        ("a\u2028b\u202ec\x9b2Jd".encode(), "abc2Jd"),
        (b"up\x1b[3A\x1b[2Kand away", "upand away"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b7\x1b(Bplain\x1b8", "plain"),
        (b"\x1b[?1049hfull\x1bc", "full"),
        (b"cut \x1b[3", "cut [3"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
    ],
)
def test_a_line_is_what_a_terminal_would_leave_of_it(written: bytes, shown: str) -> None:
    assert shown_line(written) == shown


def test_colours_are_kept_where_they_are_wanted_and_end_with_the_line() -> None:
    line = b"\x1b[2Ka \x1b[1;31mred\x1b[5A word"
    assert shown_line(line, colours=True) == "a \x1b[1;31mred word\x1b[m"


@given(st.binary())
def test_nothing_but_printable_text_comes_out(line: bytes) -> None:
    assert shown_line(line).isprintable()
    assert shown_line(line, colours=True).replace("\x1b[", "").isprintable()


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("abcdef", 3, "abc"),
        ("abc", 3, "abc"),
        ("日本語", 4, "日本"),
        ("日本語", 5, "日本"),
        ("e\u0301e\u0301e", 2, "e\u0301e\u0301"),
        ("\u1112\u1161\u11ab!", 2, "\u1112\u1161\u11ab"),
        ("\u4dc0\u4dc1", 3, "\u4dc0"),
        ("🇩🇪🇫🇷", 3, "🇩🇪"),
        ("abc", 0, ""),
    ],
)
def test_a_text_is_cut_to_the_columns_that_it_takes(text: str, columns: int, shown: str) -> None:
    assert cut(text, columns) == shown
    assert columns_of(shown) <= columns


def test_each_character_takes_the_columns_that_unicode_says() -> None:
    """Of what Python's own tables know since long; a sample, as there are 150,000."""
    for code in (*range(0x20, 0x3100), *range(0x3100, 0x20000, 7)):
        character = chr(code)
        kind = unicodedata.category(character)
        if kind == "Mc" or not character.isprintable() or NEWER_OR_JOINED.match(character):
            continue
        wide = unicodedata.east_asian_width(character) in "WF"
        expected = 0 if kind in ("Me", "Mn") else 2 if wide else 1
        assert columns_of(character) == expected, hex(code)


def test_a_table_is_straight_whatever_is_in_its_cells() -> None:
    rows = [("NAME", "日本", "LAST"), ("e\u0301t\u00e9", "x", "end"), ("a\x1b[2J\nb", "", "日本語")]
    lines = table(rows)
    assert [line.rpartition(last)[0] for line, (*_, last) in zip(lines, rows, strict=True)] == [
        "NAME         日本  ",
        "e\u0301t\u00e9          x     ",
        "a\\x1b[2J\\nb        ",
    ]
    assert table(rows, 12)[2] == "a\\x1b[2J\\nb…"
    assert [columns_of(table(rows, width)[2]) for width in (23, 24, 25)] == [22, 24, 25]


def test_a_message_of_several_lines_is_wrapped_at_spaces_and_a_command_line_stays_whole() -> None:
    lines = [
        "the job failed",
        "  - aaa bbb ccc",
        "  its log: pai-runtime logs a/b worker/0",
        "  \x1b" + "x" * 30,
    ]
    assert message(lines, 20) == [
        "pai-runtime: the job",
        "    failed",
        "  - aaa bbb ccc",
        "  its log:",
        "      pai-runtime logs a/b worker/0",
        "  \\x1b" + "x" * 30,
    ]
    assert message(["one", "  two three"]) == ["pai-runtime: one", "  two three"]
    assert message(["\u8f66 " * 9], 22) == [
        "pai-runtime: \u8f66 \u8f66 \u8f66",
        *["    " + " ".join("\u8f66" * 6)],
    ]
