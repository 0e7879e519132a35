"""JSON in a millisecond: the two functions of `json` that a supervisor needs before the user's command runs.

The `json` package imports `re`, which takes longer than reading a plan. This calls the same C code without it,
and is the package itself where the interpreter has no such code.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner  # type: ignore[import-not-found]
except ImportError:
    from json import dumps, loads
else:

    class _Settings:
        """What the C scanner asks its decoder for."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float = float
        parse_int = int
        memo: "dict[str, str]" = {}  # noqa: RUF012 - cleared by the scanner itself

        @staticmethod
        def parse_constant(name: str) -> "Any":
            raise ValueError(f"{name} is not JSON")

    _scan = make_scanner(_Settings)
    _SPACE = " \t\n\r"

    def loads(text: "str | bytes") -> "Any":
        """As `json.loads` of UTF-8, but NaN and infinities are refused; raises `ValueError`."""
        if isinstance(text, bytes):
            text = text.decode()
        stripped = text.strip(_SPACE)
        try:
            value, end = _scan(stripped, 0)
        except StopIteration:
            raise ValueError("not JSON") from None
        if end != len(stripped):
            raise ValueError("more than one JSON value")
        return value

    def _refuse(value: object) -> "Any":
        raise TypeError(f"a {type(value).__name__} is not JSON")

    _encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, False)  # noqa: FBT003 - C

    def dumps(value: object) -> str:
        """As `json.dumps`, but NaN and infinities are refused."""
        return "".join(_encode(value, 0))
