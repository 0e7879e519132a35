"""Lock files: what is written is what is read, and nothing but a sound regular file is read."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_definitions.lock import Lock, Pin, lock_path, lock_text, read_lock
from pai_definitions.origins import shared_origin
from pai_document.problems import InvalidInput

TEXT = b"name: mnist\ntype: data\n"
DIGEST = sha256(TEXT).hexdigest()
MNIST = Pin("marketplace://name/mnist", "", "https://example.org/api/items/1", "mnist", "1.2", DIGEST)
COMMON = Pin("../common.yaml", "source:nlp/a.yaml", "source:common.yaml", "common", "", "0" * 64)

WRITTEN = f"""\
# Which bytes the references of the job mean. Written by pai-runtime lock.
lockVersion: 1
definitions:
- reference: ../common.yaml
  in: source:nlp/a.yaml
  origin: source:common.yaml
  name: common
  digest: sha256:{"0" * 64}
- reference: marketplace://name/mnist
  origin: https://example.org/api/items/1
  name: mnist
  version: "1.2"
  digest: sha256:{DIGEST}
files:
- digest: sha256:{DIGEST}
  content: |
    name: mnist
    type: data
"""

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def read(folder: Path, text: str | bytes) -> Lock:
    """The lock in a file with this text."""
    path = folder / "job.yaml.lock"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_lock(path)


def problems(folder: Path, text: str | bytes) -> list[tuple[str, str, int]]:
    """Code, field and line of all that is wrong with a lock file."""
    with pytest.raises(InvalidInput) as caught:
        read(folder, text)
    return [
        (each.code, each.field, each.position.line if each.position else -1) for each in caught.value.problems
    ]


def test_it_is_beside_the_job_file() -> None:
    assert lock_path(Path("jobs/train.yaml")) == Path("jobs/train.yaml.lock")


def test_it_is_written_for_people_and_the_same_in_any_order(tmp_path: Path) -> None:
    assert lock_text([MNIST, COMMON], [TEXT]) == lock_text([COMMON, MNIST], [TEXT, TEXT]) == WRITTEN
    lock = read(tmp_path, WRITTEN)
    assert lock.pins == {pin.key: pin for pin in (MNIST, COMMON)}
    assert lock.contents == {DIGEST: TEXT}


def test_one_with_the_name_that_somebody_gave_a_source_means_any_source(tmp_path: Path) -> None:
    old = WRITTEN.replace(" source:", " team:")
    assert old != WRITTEN
    assert read(tmp_path, old) == read(tmp_path, WRITTEN)


def test_one_that_locks_nothing_can_be_read(tmp_path: Path) -> None:
    assert read(tmp_path, lock_text([])).pins == {}


@settings(max_examples=60)
@given(TEXTS, TEXTS | st.just(""), TEXTS, st.lists(st.binary() | TEXTS.map(str.encode)))
def test_whatever_it_says_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, reference: str, within: str, origin: str, files: list[bytes]
) -> None:
    pin = Pin(reference, shared_origin(within), shared_origin(origin), reference, origin, DIGEST, within)
    lock = read(tmp_path_factory.getbasetemp(), lock_text([pin], files))
    assert lock.pins == {pin.key: pin}
    assert lock.contents == {sha256(file).hexdigest(): file for file in files}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n\n",
        b" ",
        b"a",
        b"a\n\n",
        b"\n\n  a\n b",
        b"\ta: 1\n",
        b"# a\n---\n...\n",
        b"a  \nb\t\n",
        b"a\r\nb\r\n",
        "caf\u00e9 \u65e5\u672c \U0001f600\n".encode(),
        "\u0085\u2028\n".encode(),
        b"\xef\xbb\xbfname: a\n",
        b"\xff\0\x7f",
    ],
)
def test_it_carries_files_byte_by_byte(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, lock_text([], [content])).contents == {sha256(content).hexdigest(): content}


NO_PINS = "lockVersion: 1\ndefinitions: []\n"
ENTRY = f"{{reference: a, origin: b, digest: 'sha256:{DIGEST}'}}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [("empty", "", 0)]),
        ("\xff".encode("latin-1"), [("not-utf-8", "", 1)]),
        ("#" * (4 * 1024 * 1024 + 1), [("too-large", "", 0)]),
        ("[]", [("wrong-type", "", 1)]),
        ("lockVersion: 2\nentries: {}\n", [("newer-version", "lockVersion", 1)]),
        ("lockVersion: 1\n", [("missing-field", "", 1)]),
        (
            "lockVersion: 1\ndefinitions:\n- origin: 1\n  digest: sha256:12\n  reference: a\n  more: 1\n",
            [
                ("wrong-type", "definitions[0].origin", 3),
                ("wrong-value", "definitions[0].digest", 4),
                ("unknown-field", "definitions[0].more", 6),
            ],
        ),
        (
            f"lockVersion: 1\ndefinitions:\n- {ENTRY}\n- {ENTRY}\n",
            [("duplicate-reference", "definitions[1]", 4)],
        ),
        (
            (
                f"{NO_PINS}files:\n- {{digest: 'sha256:{DIGEST}', content: other}}\n"
                f"- {{digest: 'sha256:{DIGEST}', base64: abc}}\n"
            ),
            [("wrong-digest", "files[0]", 4), ("wrong-digest", "files[1]", 5)],
        ),
        (
            f"lockVersion: 1\ndefinitions: []\nfiles:\n- {{digest: 'sha256:{DIGEST}'}}\n",
            [("wrong-value", "files[0]", 4)],
        ),
        ("lockVersion: 1\ndefinitions: [\n", [("unclosed-bracket", "", 2)]),
    ],
)
def test_what_is_wrong_with_it_is_said_with_its_line(
    tmp_path: Path, text: str | bytes, found: list[tuple[str, str, int]]
) -> None:
    assert problems(tmp_path, text) == found


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_only_a_regular_file_is_read(tmp_path: Path, make: object) -> None:
    path = tmp_path / "job.yaml.lock"
    assert callable(make)
    make(path)
    with pytest.raises(InvalidInput) as caught:
        read_lock(path)
    assert [problem.code for problem in caught.value.problems] == ["unreadable"]
