"""Our way to the interpreter's JSON is `json`'s."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_task import fast_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_VALUES)
def test_what_is_written_is_what_json_writes_and_reads(value: Any) -> None:
    text = fast_json.dumps(value)
    assert text == json.dumps(value)
    assert fast_json.dumps(value, ensure_ascii=False) == json.dumps(value, ensure_ascii=False)
    assert fast_json.loads(text) == json.loads(text)
    assert fast_json.loads(json.dumps(value, indent=1, ensure_ascii=False)) == value


@given(st.text(alphabet='[]{},:"\\ \n\t0123456789.eE+-truefalsn\x00é'))
def test_whatever_is_read_is_read_or_refused_as_json_does(text: str) -> None:
    try:
        expected = json.loads(text)
        json.dumps(expected, allow_nan=False)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            fast_json.loads(text)
    else:
        assert fast_json.loads(text) == expected


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", '{"a": NaN}', "1e999", "[-1.5e400]"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON|is too large"):
        fast_json.loads(text)
    with pytest.raises(ValueError):  # noqa: PT011 - json's own
        fast_json.dumps(float("nan"))


@pytest.mark.process
@pytest.mark.parametrize("text", ["{", '{"a" 1}', '"a', '["\\x"]', '["\x01"]', "[1,]", "nul", b"\xff"])
def test_a_bare_interpreter_refuses_what_is_not_json_too(text: str | bytes) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; from pai_task.fast_json import loads\n"
        f"try: loads({text!r})\nexcept ValueError: print('refused')"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, *filter(None, sys.path)]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"refused\n"


def test_what_has_no_json_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        fast_json.dumps(object())
