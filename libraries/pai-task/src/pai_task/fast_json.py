"""JSON that loads in a millisecond: what a supervisor needs of `json` at its start.

The `json` package imports `re`, which takes longer than reading a plan. This calls the same C code without
it, and is the package itself where the interpreter has no such code. The gain is 12 ms of CPU
time at the start of each process that needs no `re` otherwise: a supervisor, and what runs a hook.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner
except ImportError:
    make_scanner = make_encoder = None  # type: ignore[assignment, misc]


MOST_CONTAINERS = 100_000
"""Maximum number of objects and lists in untrusted JSON: two bytes of it can take a hundred of memory."""

_INFINITE = (float("inf"), float("-inf"))


class _Settings:
    """The settings that the C scanner reads from its decoder."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None  # the last is asked for since Python 3.15
    parse_int = int

    @staticmethod
    def parse_float(text: str) -> float:
        number = float(text)
        if number in _INFINITE:
            raise ValueError(f"{text} is too large")
        return number

    @staticmethod
    def parse_constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")


def loads(text: str | bytes) -> Any:
    """Parse JSON as `json.loads` does, but refuse NaN and infinities. Raises `ValueError`."""
    if isinstance(text, bytes):
        text = text.decode()
    if make_scanner is not None:
        stripped = text.strip(" \t\n\r")
        settings: Any = _Settings
        try:
            value, end = make_scanner(settings)(stripped, 0)
        except (
            StopIteration,
            SystemError,
            ImportError,
        ):  # the latter two if it does not find the exception that it wants
            pass
        else:
            if end == len(stripped):
                return value
    try:
        import json  # noqa: PLC0415 - it says what is wrong, in words
    except ImportError:  # the task has taken its files away
        raise ValueError("it is not JSON") from None
    return json.loads(text, parse_float=_Settings.parse_float, parse_constant=_Settings.parse_constant)


def loads_untrusted(data: bytes, most: int = MOST_CONTAINERS, values: int | None = None) -> Any:
    """Parse JSON that a task may have written.

    Raises `ValueError` if it is invalid, too large or nested too deeply. More than `most` objects and lists,
    or than `values` values, are refused before they take memory; braces, brackets and commas in strings count
    too. The size of `data` has to be bounded by the caller.
    """
    if data.count(b"{") + data.count(b"[") > most:
        raise ValueError(f"expected at most {most} objects and lists")
    if values is not None and data.count(b",") > values:
        raise ValueError(f"expected at most {values} values")
    try:
        return loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def dumps(value: object, *, ensure_ascii: bool = True) -> str:
    """Format JSON as `json.dumps` does, but refuse NaN and infinities. Raises `ValueError` or `TypeError`."""
    if make_encoder is None:
        import json  # noqa: PLC0415 - see the top

        return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False)
    text = encode_basestring_ascii if ensure_ascii else encode_basestring
    encode = make_encoder(None, _refuse, text, None, ": ", ", ", False, False, False)  # noqa: FBT003 - C
    return "".join(encode(value, 0))


def _refuse(value: object) -> Any:
    raise TypeError(f"a {type(value).__name__} is not JSON")
