"""Recognition of names that mark a value as secret, so that no message shows it."""

import re
from functools import cache

_ENDINGS = (
    "auth",
    "authorization",
    "credential",
    "key",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "token",
)
_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@cache
def names_secret(name: str) -> bool:
    """Return whether a word of a name, as in ``apiKey``, ``API_KEY`` or ``apikeys``, marks a secret."""
    return any(word.lower().removesuffix("s").endswith(_ENDINGS) for word in _WORD.findall(name))
