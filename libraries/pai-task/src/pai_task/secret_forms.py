"""The forms in which tools print a secret value; line breaks are ignored.

As it is, in base64 (at any alignment), in hexadecimal, in URLs, in JSON, in HTML, quoted for a shell,
and as Python writes a literal; the value as a whole, and each line of a value of several lines.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterator

from pai_task.fast_json import dumps
from pai_task.masking import BREAKS, SHORTEST

_SHORTEST_LINE = 8
"""Minimum bytes of a line that is masked even without the rest of its value."""

_FEWEST_SYMBOLS = 4
"""Minimum number of different symbols for masking a line without a letter or digit."""

_PIECE, _STEP = 256, 240
"""Size in characters of the pieces of a long value, and the distance of their starts.

They overlap by more than what base64 loses at the ends of each, and so are masked as one.
"""

# Not compiled here: most tasks have no secrets, and are not to wait for it.
_PLAIN = r"[\w.-]*"
_PLAIN_BUT_IN_URLS = r"[\w.\-+/=:@%]*"
_PLAIN_IN_JSON = r"[\w.\-:@%]*"

_BASH_QUOTED = r"""([ !"$&'()*,;<>?[\\\]^`{|}]|(?<=[:=])~)"""
_ANSI_C = {
    **{number: f"\\{number:03o}" for number in (*range(32), *range(127, 256))},
    **dict(zip(b"\a\b\t\n\v\f\r\x1b'\\", (f"\\{letter}" for letter in "abtnvfrE'\\"), strict=True)),
}
_ANSI_C_BELOW_128 = {number: text for number, text in _ANSI_C.items() if number < 128}  # noqa: PLR2004

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_UNSAFE_IN_URLS = [rb"[^\w.~-]", rb"[^\w.~/-]", rb"[^\w.~!*'()-]", rb"[^\w.*-]"]
"""Bytes that are escaped in a query, in a path, by JavaScript and in forms; ``\\w`` in bytes is ASCII's."""

_ESCAPED_IN_JSON = ["", "<>&", "<>&'", "<>&'\"", "<>&'\"+`", "<>&'="]
"""Characters that some languages escape, mostly for HTML: Go, Python, PHP, .NET, Java."""
_ESCAPE = r"\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|U[0-9a-f]{8})"
_BASH_ESCAPES = ("Cc", "Cn", "Cs", "Zl", "Zp")
"""Unicode categories of characters that the C library considers unprintable."""

_QUOTES_IN_HTML = [
    ("&quot;", "&#x27;"),
    ("&quot;", "&#39;"),
    ("&quot;", "&#039;"),
    ("&quot;", "&apos;"),
    ("&#34;", "&#39;"),
]


def forms(secret: str) -> set[bytes]:
    """Return all forms of a secret value; none if it is too short."""
    value = secret.strip("\r\n")
    if is_too_short(value):
        return set()
    lines = filter(_is_telling, map(str.strip, re.split("[\r\n]+", value)))
    parts = {value, " ".join(value.split()), *lines}  # in one line, as ``echo $VALUE`` prints it
    found = {_bytes(form) if isinstance(form, str) else form for part in parts for form in _printed(part)}
    return {form for form in (each.translate(None, BREAKS) for each in found) if len(form) >= SHORTEST}


def is_too_short(secret: str) -> bool:
    """Return whether a value is too short to be masked."""
    return len(_bytes(secret).translate(None, BREAKS)) < SHORTEST


def _is_telling(line: str) -> bool:
    """Return whether a line is long enough to be masked on its own, and no ruler such as ``-----``."""
    is_rule = len(set(line)) < _FEWEST_SYMBOLS and not re.search(r"\w", line)
    return len(_bytes(line)) >= _SHORTEST_LINE and not is_rule


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
        if not re.fullmatch(_PLAIN_IN_JSON, piece, re.ASCII):
            written = set(_in_json(piece))
            yield from written
            for coded in written - {piece}:
                yield from _base64(_bytes(coded))  # as in the Secrets of a cluster
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
    yield from _in_shell(text)
    markup = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield markup
    for double, single in _QUOTES_IN_HTML:
        yield markup.replace('"', double).replace("'", single)
    for write in (repr, ascii):
        # The quotes around it, which decide what is escaped, depend on what else is in it.
        parts = [write(part)[1:-1] for part in text.split("'")]
        for written in ("'".join(parts), "\\'".join(parts)):
            yield written
            yield _upper_case(written)
    parts = [repr(part)[2:-1] for part in _bytes(text).split(b"'")]
    yield from ("'".join(parts), "\\'".join(parts))


def _in_json(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        plain = dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield plain.replace("/", "\\/")
        for characters in _ESCAPED_IN_JSON:
            coded = plain.replace('\\"', "\\u0022") if '"' in characters else plain
            for character in characters:
                coded = coded.replace(character, f"\\u{ord(character):04x}")
            yield coded
            yield _upper_case(coded)


def _upper_case(coded: str) -> str:
    """Return a text with the hexadecimal digits of its escapes in upper case."""
    return re.sub(_ESCAPE, lambda escape: escape[0][:2] + escape[0][2:].upper(), coded)


def _in_shell(text: str) -> Iterator[str]:
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "'\\''")
    yield re.sub("'+", lambda quotes: f"'\"{quotes[0]}\"'", text).strip("'\"")
    yield re.sub(_BASH_QUOTED, r"\\\1", text)
    yield re.sub(r"([^\w@%+=:,./\r\n-])", r"\\\1", text)
    yield re.sub(r'(["\\$`])', r"\\\1", text)
    yield text.translate(_ANSI_C_BELOW_128)
    yield _bytes(text).decode("latin-1").translate(_ANSI_C)
    if not text.isprintable() and not text.isascii():
        yield "".join(map(_printed_by_bash, text))


def _printed_by_bash(character: str) -> str:
    """Return a character as bash writes it in ``$'…'``, with unprintable ones in octal."""
    from unicodedata import category  # noqa: PLC0415 - few values have any such character

    if category(character) in _BASH_ESCAPES and not character.isascii():
        return "".join(f"\\{byte:03o}" for byte in _bytes(character))
    return character.translate(_ANSI_C_BELOW_128)
