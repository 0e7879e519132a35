"""The variables that local tasks inherit from the user's environment.

What programs need, and what is asked for. All else stays outside: people have keys and tokens there.
"""

import os
import re
from collections.abc import Iterable

from pai_document.secret_names import names_secret

PASSED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
"""Variables that are always passed on, like all ``LC_*`` and proxies without a password."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def is_name(text: str) -> bool:
    """Return whether a text is the name of a variable."""
    return re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text) is not None


def local_environment(asked: Iterable[str]) -> dict[str, str]:
    """Return the variables of this process that its tasks inherit, including those `asked` for."""
    names = {*PASSED, *asked}
    return {name: value for name, value in os.environ.items() if name in names or _is_harmless(name, value)}


def _is_harmless(name: str, value: str) -> bool:
    return name.startswith("LC_") or (name.lower() in _PROXIES and "@" not in value)


def not_set(asked: Iterable[str]) -> list[str]:
    """Return the variables that are asked for and unset here."""
    return [name for name in dict.fromkeys(asked) if name not in os.environ]


def secrets_among(asked: Iterable[str]) -> dict[str, str]:
    """Return the values that have to be masked among the variables asked for, by name."""
    return {name: os.environ[name] for name in asked if names_secret(name) and name in os.environ}
