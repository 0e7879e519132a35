"""Errors of plugins, as messages that name the plugin."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from pai_runtime.plugin import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Protocol

    from pai_runtime.host.code import Code
else:
    Protocol = object


class Blamed(Protocol):
    """A plugin, as far as messages about it need."""

    @property
    def label(self) -> str:
        """The name of the plugin in messages."""

    @property
    def location(self) -> Path | None:
        """The file of the plugin's module; None if unknown."""


def plugin_label(id_: str, code: Code) -> str:
    """Return the name of a plugin in messages: id, distribution and version."""
    return f"plugin {id_} ({code.distribution} {code.version})"


class PluginError(Exception):
    """The exception for an error of a plugin; it names plugin, distribution, version and phase.

    `kind` is the name of the class of what the plugin raised, empty if it raised nothing; `frames` are the
    lines of the plugin's own code that led there, outermost first, as ``file:line in function``.
    """

    def __init__(
        self, plugin: Blamed, phase: str, what: str, *, kind: str = "", frames: Sequence[str] = ()
    ) -> None:
        super().__init__(f"{plugin.label}, {phase}: {what}")
        self.phase = phase
        self.what = what
        self.kind = kind
        self.frames = tuple(frames)


@contextlib.contextmanager
def blamed(plugin: Blamed, phase: str, *passing: type[Exception]) -> Iterator[None]:
    """Turn any exception of the block, ``sys.exit`` included, into a `PluginError`.

    KeyboardInterrupt and the `passing` ones pass.
    """
    try:
        yield
    except (PluginError, KeyboardInterrupt):
        raise
    except passing:
        raise
    except SystemExit as error:
        raise PluginError(plugin, phase, f"called sys.exit({_one_line(error.code)})") from None
    except BaseException as error:
        kind, places = type(error).__name__, _places(error, plugin)
        what = _one_line(error)
        if not isinstance(error, UserError):
            what = f"{kind}: {what}" + (f" ({places[-1][0]})" if places else "")
        frames = [f"{where} in {function}" for where, function in places]
        raise PluginError(plugin, phase, what, kind=kind, frames=frames) from error


@contextlib.contextmanager
def stdout_is_stderr() -> Iterator[None]:
    """Redirect standard output to standard error, since standard output is for what was asked for.

    The file descriptor is redirected too, for the programs that plugins start.
    """
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _one_line(thing: object) -> str:
    """Return what a plugin raised or returned on one line, even if its ``__str__`` fails."""
    try:
        return " ".join(str(thing).split())
    except Exception as error:  # noqa: BLE001 - what cannot even be shown must not be worse than what can
        return f"(cannot be shown: {type(error).__name__})"


def _places(error: BaseException, plugin: Blamed) -> list[tuple[str, str]]:
    """Return where in the plugin's code a traceback has been: ``file:line`` and function, outermost first."""
    if isinstance(error, SyntaxError):
        return [(f"{error.filename}:{error.lineno}", "<module>")]
    from traceback import walk_tb  # noqa: PLC0415 - not for what goes well

    location = plugin.location or Path()
    own = str(location.parent if location.name == "__init__.py" else location)
    return [
        (f"{frame.f_code.co_filename}:{line}", frame.f_code.co_name)
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename.startswith(own)
    ]
