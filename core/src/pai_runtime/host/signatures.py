"""Which arguments a hook of a plugin declares, however it is written."""

from inspect import Parameter, signature
from typing import Any


def declared_arguments(function: Any) -> list[str]:
    """Return the names of the positional arguments that a callable needs, as pluggy finds them."""
    return [
        name
        for name, each in signature(function).parameters.items()
        if each.kind is Parameter.POSITIONAL_OR_KEYWORD and each.default is Parameter.empty
    ]
