"""Values of ``Authorization`` headers."""

from base64 import b64encode


def basic(username: str, password: str) -> str:
    """Return the header value for a user with a password (RFC 7617)."""
    return f"Basic {b64encode(f'{username}:{password}'.encode(errors='surrogatepass')).decode()}"


def is_token(text: str) -> bool:
    """Return whether a text can be a token: printable ASCII characters without spaces."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def bearer(token: str) -> str:
    """Return the header value for a token (RFC 6750).

    Raises `ValueError`, without the text, if it is invalid.
    """
    if not is_token(token):
        raise ValueError("a token has printable ASCII characters only, and no blanks")
    return f"Bearer {token}"
