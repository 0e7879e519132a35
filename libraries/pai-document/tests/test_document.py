"""Documents: positions, the core schema of YAML 1.2, and hostile files."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pai_document.document import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse_document, read_document
from pai_document.problems import InvalidInput, Position
from pai_document.value import walk
from tests.job_harness import yaml_text

GIB = 1 << 30


def data(source: str) -> Any:
    return parse_document(source, "f").data


def faults(source: str) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        parse_document(source, "f")
    return [f"{problem.position} {problem.code}" for problem in raised.value.problems]


def file_faults(path: Path) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read_document(path)
    faults = [f"{problem.position} {problem.code}" for problem in raised.value.problems]
    return [fault.removeprefix(str(path)).lstrip(": ") for fault in faults]


def written(folder: Path, content: bytes) -> Path:
    path = folder / "f.yaml"
    path.write_bytes(content)
    return path


@pytest.fixture(params=[pytest.param("libyaml", marks=pytest.mark.needs("libyaml")), "pure Python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """PyYAML with and without its C library: which of them is there, the machine decides."""
    if request.param == "pure Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    return str(request.param)


# What values are


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, word) for word in ("yes", "no", "on", "off", "y", "n", "Yes", "NO", "tRUE", "nULL")),
        *(
            (word, word)
            for word in ("1_000", "0b11", "1:30", "2001-01-01", "=", "-0x1", "1e", "e1", ".", "1.5.2")
        ),
        *((word, word) for word in (".inf", "-.inf", ".INF", ".nan", ".NaN", "inf", "nan", "1e999")),
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("010", 10),
        ("09", 9),
        ("0o17", 15),
        ("0xfF", 255),
        ("12345678901234567890123", 12345678901234567890123),
        ("9" * 5000, "9" * 5000),
        ("1.0", 1.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e-4", -1e-4),
        ("1E+3", 1000.0),
        ("'1'", "1"),
        ('"true"', "true"),
        ("'~'", "~"),
        ("!!str 1", "1"),
        ("!!str", ""),
        ("! 12", "12"),
        ('!!int "3"', 3),
        ("!!float 3", 3.0),
        ("!!bool true", True),
        ("!!null ~", None),
        ("!!map {a: 1}", {"a": 1}),
        ("!!seq [1]", [1]),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(written: str, value: Any) -> None:
    found = data(f"a: {written}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_every_key_is_text_as_it_was_written() -> None:
    assert data("1: a\ntrue: b\nnull: c\n1.50: d\n~: e\n0x10: f\n") == {
        "1": "a",
        "true": "b",
        "null": "c",
        "1.50": "d",
        "~": "e",
        "0x10": "f",
    }


def test_a_scalar_keeps_how_it_was_written() -> None:
    root = parse_document("[1.0, 1e-4, 0x1F, true, '007', x y, ~]", "f")
    texts = [child.text for child in root.values()]
    assert texts == ["1.0", "1e-4", "0x1F", "true", "007", "x y", ""]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a: &x {k: 1}\nb: *x\n", {"a": {"k": 1}, "b": {"k": 1}}),
        ("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\n", {"a": {"k": 1, "l": 2}, "b": {"l": 3, "k": 1}}),
        ("a: &x {k: 1}\nb: {l: 3, <<: *x}\n", {"a": {"k": 1}, "b": {"l": 3, "k": 1}}),
        (
            "a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}\n",
            {"a": {"k": 1}, "b": {"k": 2, "l": 2}, "c": {"k": 1, "l": 2}},
        ),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("a: {'<<': 1}\n", {"a": {"<<": 1}}),
    ],
    ids=["alias", "merge", "merge after own keys", "merge of several", "anchor given anew", "quoted <<"],
)
def test_aliases_and_merge_keys_stand_for_what_they_name(source: str, value: Any) -> None:
    assert data(source) == value


# Where values stand


def test_every_value_and_key_knows_its_line_and_column() -> None:
    document = parse_document('é: 1\nb:\n  - "😀": x\n    c: [1, {d: 2}]\n', "f")
    assert str(document.at(("é",)).position) == "f:1:4"
    assert str(document.at(("b",)).key_position) == "f:2:1"
    assert str(document.at(("b", 0, "😀")).position) == "f:3:10"
    assert str(document.at(("b", 0, "c")).key_position) == "f:4:5"
    assert str(document.at(("b", 0, "c", 1, "d")).position) == "f:4:16"
    inner = document.get("b", 0, "c", 1, "d")
    assert inner is not None
    assert (inner.field, inner.path, inner.data) == ("b[0].c[1].d", ("b", 0, "c", 1, "d"), 2)


@pytest.mark.parametrize(
    ("source", "path", "position", "key_position"),
    [
        ("a: &x {k: 1}\nb: *x\n", ("b",), "f:1:4", "f:2:1"),
        ("a: &x {k: 1}\nb: *x\n", ("b", "k"), "f:1:11", "f:1:8"),
        ("a: &x {k: 1}\nb:\n  <<: *x\n", ("b", "k"), "f:1:11", "f:1:8"),
    ],
    ids=["alias", "below an alias", "merged"],
)
def test_what_is_written_elsewhere_has_the_field_where_it_is_used_and_the_position_where_it_is_written(
    source: str, path: tuple[str, ...], position: str, key_position: str
) -> None:
    value = parse_document(source, "f").get(*path)
    assert value is not None
    assert value.field == ".".join(path)
    assert (str(value.position), str(value.key_position)) == (position, key_position)


def test_the_position_of_what_is_not_there_is_that_of_the_nearest_above_it() -> None:
    document = parse_document("a:\n  b: 1\n", "f")
    below = document.at(("a", "x", "y"))
    assert (str(below.position), str(below.key_position), below.field) == ("f:2:3", "f:2:3", "a.x.y")
    assert document.get("a", "x") is None


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\u2028"])
def test_a_character_has_the_position_that_values_have_whatever_ends_a_line(newline: str) -> None:
    source = newline.join(["a: 1", "b: 2", "cé: [x, y]"])
    document = parse_document(source, "f")
    last, first = document.at(("cé", 1)).position, document.at(("a",)).key_position
    assert [(each.line, each.column) for each in (first, last)] == [(1, 1), (3, 9)]
    assert document.node.source.position(source.index("y")) == last


def test_a_value_is_not_shown_by_repr() -> None:
    assert "hunter2" not in repr(parse_document("a: hunter2\nb: [hunter2]\n", "f"))


# What is refused


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", ["f empty"]),
        ("# only this\n", ["f empty"]),
        ("a: 1\n---\nb: 1\n", ["f:2:1 second-document"]),
        ("a: 1\n---\n[unclosed", ["f:2:1 second-document"]),
        ("a: 1\nb: 2\na: 3\n", ["f:3:1 duplicate-key"]),
        ("x: {1: a,\n '1': b}", ["f:2:2 duplicate-key"]),
        (
            "a: {b: 1, b: 2}\nc: {d: 1, d: 2}\n",
            [
                "f:1:11 duplicate-key",
                "f:2:11 duplicate-key",
            ],
        ),
        ('a: "x\\0y"\n', ["f:1:4 nul"]),
        ('"\\x00": y\n', ["f:1:1 nul"]),
        ("a: 1\nb: é\x07\n", ["f:2:5 not-yaml"]),
        ("😀: \x1b[31m", ["f:1:4 not-yaml"]),
        ("\x00", ["f:1:1 not-yaml"]),
        ("a: \x7f", ["f:1:4 not-yaml"]),
        ("a: \ufffe", ["f:1:4 not-yaml"]),
        ("a: b\ud800", ["f:1:5 not-yaml"]),
        ("a: &x [1, *x]\n", ["f:1:11 unknown-alias"]),
        ("a: &x {b: {c: *x}}\n", ["f:1:15 unknown-alias"]),
        ("a: &x\n  <<: *x\n", ["f:2:7 unknown-alias"]),
        ("a: *x\n", ["f:1:4 unknown-alias"]),
        ("a: &x b\n*x : c\n", ["f:2:1 wrong-key"]),
        ("? [a]\n: b\n", ["f:1:3 wrong-key"]),
        ("{a: {{b: c}: d}}", ["f:1:6 wrong-key"]),
        ("a: {<<: 3}\n", ["f:1:9 wrong-merge"]),
        ("a: {<<: [{b: 1}, c]}\n", ["f:1:9 wrong-merge"]),
        *(
            (
                f"a: 1\nb: {tag} {value}\n",
                ["f:2:4 wrong-tag"],
            )
            for tag, value in [
                ("!!python/object/apply:os.system", "[id]"),
                ("!!python/name:os.system", "x"),
                ("!custom", "x"),
                ("!<tag:example.org,2000:x>", "{}"),
                ("!!binary", "aGk="),
                ("!!set", "{a}"),
                ("!!timestamp", "2001-01-01"),
                ("!!omap", "[]"),
            ]
        ),
        *(
            (f"a: !!{kind} {value}\n", ["f:1:4 wrong-tag"])
            for kind, value in [
                ("int", "abc"),
                ("int", "1.5"),
                ("float", "x"),
                ("bool", "yes"),
                ("null", "x"),
                ("map", "[a]"),
                ("map", "a"),
                ("seq", "{a: b}"),
                ("seq", "a"),
                ("str", "[a]"),
                ("int", "{}"),
            ]
        ),
        ("!custom a: 1\n", ["f:1:1 wrong-tag"]),
    ],
)
@pytest.mark.usefixtures("parser")
def test_what_is_not_plain_data_is_refused_with_its_place(source: str, expected: list[str]) -> None:
    assert faults(source) == expected


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("%YAML 9.0\n---\na: 1\n", "f:1:1"),
        ("!e!x a\n", "f:1:1"),
    ],
)
@pytest.mark.usefixtures("parser")
def test_a_fault_of_syntax_has_its_place(source: str, place: str) -> None:
    (fault,) = faults(source)
    assert fault.startswith(place.rpartition(":")[0] + ":")
    assert fault.endswith(" not-yaml")


@pytest.mark.parametrize(
    "source",
    [
        "token: *hunter2\n",
        "token: !hunter2\n",
        "token: !hunter2 {}\n",
        "a: &hunter2 [*hunter2]\n",
        "token: @hunter2\n",
        "token: %hunter2\n",
        "token: `hunter2\n",
        'token: "hunter2\n',
        "token: 'hunter2\n",
        "token: hunter2: hunter2\n",
        "token: [hunter2\n",
        'token: "hunter2\\0"\n',
        "token: hunter2\x07\n",
        "token: !!int hunter2\n",
        "token: |hunter2\n",
        "- hunter2\ntoken: hunter2\n",
        'token: "hunter2\nother: "hunter2"\n',
        "token: hunter2\n  other: hunter2\n",
        "token:hunter2\nother: hunter2\n",
        "token: hunter2]\n hunter2:x: y\n",
        "a:\n  token: 1\n hunter2: hunter2\n",
        'token: "hunter2" hunter2\n',
        'token: "\\hunter2"\n',
        "token: *hunter2 x\n",
        "token: &hunter2 & x\n",
        "token: |\n\thunter2\n",
        "commands:\n- export TOKEN=hunter2: x: y\n",
        "commands:\n- login --token hunter2: x: y\n",
        'commands:\n- curl -H "Authorization: hunter2": x\n',
        "token: {<<: hunter2}\n",
    ],
)
@pytest.mark.usefixtures("parser")
def test_no_fault_of_a_document_shows_a_value(source: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_document(source, "f")
    assert "hunter2" not in str(raised.value)


# Files


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    document = read_document(written(tmp_path, b"\xef\xbb\xbfa: b\n"))
    assert document.data == {"a": "b"}
    assert str(document.at(("a",)).position).endswith(":1:4")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: 1\nb: \xe9x\n", "2:4 not-utf-8"),
        ("é: é".encode() + b"\xff", "1:5 not-utf-8"),
        (b"\xef\xbb\xbfa: \xe9\n", "1:4 not-utf-8"),
        (b"a: \xc3", "1:4 not-utf-8"),
        (b"a: \xed\xa0\x80", "1:4 not-utf-8"),
        ("a: 1".encode("utf-16"), "1:1 not-utf-8"),
        ("a: 1".encode("utf-16-be"), "1:1 not-yaml"),
        ("a: 1".encode("utf-32"), "1:1 not-utf-8"),
        (b"", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"\x7fELF\x02\x01", "1:1 not-yaml"),
    ],
)
def test_a_file_that_is_no_utf8_is_refused_with_the_place_of_the_byte(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    assert file_faults(written(tmp_path, content)) == [expected]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, reason in [
        (tmp_path, "Is a directory"),
        (tmp_path / "none.yaml", "No such file or directory"),
        (written(tmp_path, b"a: 1") / "x", "Not a directory"),
        (loop, "Too many levels of symbolic links"),
        (tmp_path / ("x" * 300), "File name too long"),
    ]:
        with pytest.raises(InvalidInput, match=reason):
            read_document(path)
        assert file_faults(path) == ["unreadable"]


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything; what it may not is seen as somebody else."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_that_one_may_not_read_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, b"a: 1")
    path.chmod(0)
    with without_privileges():
        assert file_faults(path) == ["unreadable"]


def test_a_fifo_to_which_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert file_faults(fifo) == ["empty"]


def test_a_pipe_is_read_to_its_end_however_slowly_it_is_written() -> None:
    reading, writing = os.pipe()
    content = b"a: " + b"x" * 3_000_000  # more than a pipe holds: each end has to wait for the other

    def write() -> None:
        with os.fdopen(writing, "wb") as stream:
            stream.write(content)

    writer = Thread(target=write, daemon=True)
    writer.start()
    document = read_document(Path(f"/dev/fd/{reading}"))
    writer.join()
    os.close(reading)
    assert document.node.source.text == content.decode()


# Bounded time and memory


def alias_bomb(start: str, again: str, count: int = 20) -> str:
    """Each level ten times the one before."""
    lines = [f"l0: &l0 {start}"]
    lines += [f"l{level}: &l{level} " + again.replace("@", f"*l{level - 1}") for level in range(1, count)]
    return "\n".join(lines) + "\n"


_KEYS = ", ".join(f"k{number}: @" for number in range(10))

HOSTILE = {
    "lists of aliases": alias_bomb("[x, x]", "[@, @, @, @, @, @, @, @, @, @]"),
    "mappings of aliases": alias_bomb("{a: x}", f"{{{_KEYS}}}"),
    "merge keys": alias_bomb("{a: x}", f"{{<<: [@, @, @, @, @, @, @, @, @, @], {_KEYS}}}"),
    "merges of one big mapping": "a: &a {"
    + ", ".join(f"k{n}: x" for n in range(5000))
    + "}\nb:\n"
    + "- <<: *a\n" * 5000,
    "a long text many times": 'a: &a "' + "x" * 1_000_000 + '"\nb: [' + ", ".join(["*a"] * 5000) + "]\n",
    "a small text very many times": "a: &a x\nb: [" + ", ".join(["*a"] * 500_000) + "]\n",
    "many values": "[" + "x," * 500_000 + "]",
    "many keys": "{" + ",".join(f"k{n}" for n in range(300_000)) + "}",
    "nested lists": "[" * 100_000,
    "nested mappings": "{a: " * 100_000,
    "nested block lists": "- " * 100_000,
    "nested block mappings": "".join(" " * level + "a:\n" for level in range(2000)),
    "nested complex keys": "? " * 100_000,
    "nested flow keys": "{? " * 100_000,
    "colons": "a:" * 500_000,
    "a key as long as the file": "a" * 3_000_000 + ": 1",
    "an unclosed text": 'a: "' + "x" * 3_000_000,
    "nothing but lines": "\n" * 3_000_000,
    "nothing but a comment": "#" * 3_000_000,
    "anchors": "".join(f"- &a{n} x\n" for n in range(250_000)),
    "equal keys": "{" + "a: 1," * 300_000 + "}",
}


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Not more than 1 GiB of new memory for this test."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + GIB, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_gives_an_error_in_little_memory(name: str) -> None:
    (fault,) = faults(HOSTILE[name])
    assert fault.startswith("f")
    assert len(fault) < 500


@pytest.mark.parametrize(
    ("source", "place"),
    [("[" * 200, "1:101"), ("- " * 200, "1:201"), ("".join(" " * n + "a:\n" for n in range(200)), "101:101")],
)
def test_nesting_is_refused_at_the_level_that_is_too_deep(source: str, place: str) -> None:
    assert faults(source) == [f"f:{place} too-deep"]


def test_the_deepest_nesting_that_is_allowed_can_be_walked() -> None:
    root = parse_document("[" * MAX_DEPTH + "x" + "]" * MAX_DEPTH, "f")
    assert [(len(path), node.data) for path, node in walk(root.node)] == [(MAX_DEPTH, "x")]


def test_as_many_values_as_are_allowed_are_read() -> None:
    assert len(data("[" + "x," * (MAX_NODES - 1) + "]")) == MAX_NODES - 1


def test_a_large_text_is_read() -> None:
    assert len(data("a: " + "x" * 3_000_000)["a"]) == 3_000_000


_READ_WITH_LITTLE_MEMORY = """
import pathlib, resource, sys
from pai_document.document import read_document
from pai_document.problems import InvalidInput
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_document(pathlib.Path(sys.argv[1]))
except InvalidInput as error:
    print(error)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 64 * 1024, grown
"""


@pytest.mark.process
@pytest.mark.parametrize("size", [MAX_BYTES + 1, 100 * 1024 * 1024, 1 << 40])
def test_a_file_that_is_too_large_is_not_read_into_memory(tmp_path: Path, size: int) -> None:
    path = written(tmp_path, b"a: 1\n")
    os.truncate(path, size)
    ended = subprocess.run(
        [sys.executable, "-c", _READ_WITH_LITTLE_MEMORY, path], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == (f"{path}: error: the file is larger than 4 MiB\n", "")


def test_a_file_without_an_end_is_refused() -> None:
    assert file_faults(Path("/dev/zero")) == ["too-large"]


# Any text, any data

_YAML_PIECES = st.sampled_from(
    [
        *"{}[]:,-?&*!|>'\"%@`#\n\t ~=<\\\0\ufeff\ud800\x85\u2028é😀",
        *(
            "a",
            "b: ",
            "- ",
            "&a ",
            "*a",
            "<<: ",
            "!!int ",
            "!x ",
            "---\n",
            "...\n",
            '"\\0"',
            "%YAML 1.1\n",
            "\n  ",
        ),
    ]
)


@given(st.text() | st.lists(_YAML_PIECES, max_size=40).map("".join))
def test_any_text_is_a_document_or_refused_with_a_place(source: str) -> None:
    try:
        document = parse_document(source, "f")
    except InvalidInput as error:
        places = [problem.position for problem in error.problems]
        texts = [str(problem) for problem in error.problems]
    else:
        texts = []
        values = [(document.get(*path), node) for path, node in walk(document.node)]
        assert all(value and value.node is node for value, node in values)
        places = [value.position if value else None for value, _ in values]
    assert all(place and (place == Position("f") or min(place.line, place.column) >= 1) for place in places)
    assert all(text.isprintable() for text in texts)


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(_PLAIN)
def test_plain_data_survives_being_written_and_read(value: Any) -> None:
    found = data(yaml_text(value))
    assert found == value
    assert repr(found) == repr(value)  # 1, 1.0 and True are equal, and not the same
