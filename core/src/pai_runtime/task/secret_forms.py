"""The forms in which tools print a secret value; line breaks are ignored.

As it is, in base64 (at any alignment), in hexadecimal, in URLs, in JSON, in HTML, quoted for a shell,
and as Python writes a literal; the value as a whole, and each line of a value of several lines.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterator

from pai_runtime.task.fast_json import dumps
from pai_runtime.task.masking import BREAKS, SHORTEST

_SHORTEST_LINE = 8
"""Bytes of a line that is masked also where the rest of the value is not."""

_PIECE, _STEP = 256, 240
"""Characters of what is looked for at once, and from one such piece of a long value to the next.

They overlap by more than what base64 loses at the ends of each, and so are masked as one.
"""

# Not compiled here: most tasks have no secrets, and are not to wait for it.
_PLAIN = r"[\w.-]*"
_PLAIN_BUT_IN_URLS = r"[\w.\-+/=:@%]*"

_BASH_QUOTED = r"""([ !"$&'()*,;<>?[\\\]^`{|}]|(?<=[:=])~)"""
_ANSI_C = {
    **{number: f"\\{number:03o}" for number in (*range(32), *range(127, 256))},
    **dict(zip(b"\a\b\t\n\v\f\r\x1b'\\", (f"\\{letter}" for letter in "abtnvfrE'\\"), strict=True)),
}
_ANSI_C_BELOW_128 = {number: text for number, text in _ANSI_C.items() if number < 128}  # noqa: PLR2004

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_UNSAFE_IN_URLS = [rb"[^\w.~-]", rb"[^\w.~/-]", rb"[^\w.~!*'()-]"]
"""As in a query, in a path, and as JavaScript says; a word in bytes is ASCII's."""

_QUOTES_IN_HTML = [
    ("&quot;", "&#x27;"),
    ("&quot;", "&#39;"),
    ("&quot;", "&#039;"),
    ("&quot;", "&apos;"),
    ("&#34;", "&#39;"),
]


def forms(secret: str) -> set[bytes]:
    """All forms of a value; none of one that is too short."""
    value = secret.strip("\r\n")
    if is_too_short(value):
        return set()
    lines = filter(_is_telling, map(str.strip, re.split("[\r\n]+", value)))
    parts = {value, " ".join(value.split()), *lines}  # in one line, as ``echo $VALUE`` prints it
    found = {_bytes(form) if isinstance(form, str) else form for part in parts for form in _printed(part)}
    return {form for form in (each.translate(None, BREAKS) for each in found) if len(form) >= SHORTEST}


def is_too_short(secret: str) -> bool:
    """Whether it cannot be masked."""
    return len(_bytes(secret).translate(None, BREAKS)) < SHORTEST


def _is_telling(line: str) -> bool:
    return len(_bytes(line)) >= _SHORTEST_LINE and bool(re.search(r"\w", line))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _printed(text: str) -> Iterator[str | bytes]:
    for start in range(0, max(len(text) - _PIECE + _STEP, 1), _STEP):
        piece = text[start : start + _PIECE]
        data = _bytes(piece)
        yield piece
        yield from _base64(data)
        for separator in ("", " "):
            code = data.hex(*separator)
            yield code
            yield code.upper()
        if not re.fullmatch(_PLAIN, piece, re.ASCII):
            yield from _in_url(data)
        if not re.fullmatch(_PLAIN_BUT_IN_URLS, piece, re.ASCII):
            yield from _quoted(piece)


def _base64(data: bytes) -> Iterator[bytes]:
    for before in range(3):
        coded = b2a_base64(bytes(before) + data, newline=False)
        # Only these characters do not depend on what stands before and after the value.
        form = coded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        yield form
        yield form.translate(_URL_SAFE)


def _in_url(data: bytes) -> Iterator[bytes]:
    for unsafe in _UNSAFE_IN_URLS:
        form = re.sub(unsafe, lambda found: b"%%%02X" % found[0][0], data)
        for spaced in {form, form.replace(b"%20", b"+")}:
            yield spaced
            yield re.sub(b"%..", lambda code: code[0].lower(), spaced)


def _quoted(text: str) -> Iterator[str]:
    yield dumps(text)[1:-1]
    yield dumps(text, ensure_ascii=False)[1:-1]
    yield from _in_shell(text)
    markup = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield markup
    for double, single in _QUOTES_IN_HTML:
        yield markup.replace('"', double).replace("'", single)
    for write in (repr, ascii):
        # The quotes around it, which decide what is escaped, depend on what else is in it.
        parts = [write(part)[1:-1] for part in text.split("'")]
        yield from ("'".join(parts), "\\'".join(parts))
    parts = [repr(part)[2:-1] for part in _bytes(text).split(b"'")]
    yield from ("'".join(parts), "\\'".join(parts))


def _in_shell(text: str) -> Iterator[str]:
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "'\\''")
    yield re.sub("'+", lambda quotes: f"'\"{quotes[0]}\"'", text).strip("'\"")
    yield re.sub(_BASH_QUOTED, r"\\\1", text)
    yield re.sub(r"([^\w@%+=:,./\r\n-])", r"\\\1", text)
    yield re.sub(r'(["\\$`])', r"\\\1", text)
    yield text.translate(_ANSI_C_BELOW_128)
    yield _bytes(text).decode("latin-1").translate(_ANSI_C)
