"""The one place where a plugin is imported."""

import contextlib
import importlib
import importlib.util
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pluggy

from pai_runtime import hooks
from pai_runtime.host.discovery import Plugin
from pai_runtime.plugin import PROJECT

LONGEST_CALL = 60
"""Seconds that the import of a plugin, or a hook that makes a plan, may take."""


class PluginError(Exception):
    """What a plugin did wrong, with its name, distribution and version, and the phase."""

    def __init__(self, plugin: Plugin, phase: str, what: str) -> None:
        super().__init__(f"{plugin.label}, {phase}: {what}")
        self.what = what


@dataclass(frozen=True)
class LoadedPlugin:
    """An imported plugin, alone in a manager of its own: what one registers cannot disturb another."""

    plugin: Plugin
    manager: pluggy.PluginManager

    def implements(self, hook: str) -> bool:
        """Whether it has an implementation of a hook."""
        return bool(getattr(self.manager.hook, hook).get_hookimpls())


def load(plugin: Plugin) -> LoadedPlugin:
    """Import a plugin that is allowed; raises `PluginError`."""
    with blamed(plugin, "import"):
        _check_location(plugin)
        module = importlib.import_module(plugin.module)
        implementation: Any = module
        for name in filter(None, plugin.value.partition(":")[2].strip().split(".")):
            implementation = getattr(implementation, name)
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(hooks)
        manager.register(implementation, name=plugin.id)
        manager.check_pending()
    return LoadedPlugin(plugin, manager)


@contextlib.contextmanager
def blamed(plugin: Plugin, phase: str, limit: int | None = LONGEST_CALL) -> Iterator[None]:
    """Turn whatever goes wrong inside into a `PluginError`, also if it takes more than `limit` seconds.

    What it prints goes to standard error: standard output may be a document that somebody reads.
    """
    try:
        with (
            contextlib.redirect_stdout(sys.stderr),
            _time_limit(limit) if limit else contextlib.nullcontext(),
        ):
            yield
    except (PluginError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise PluginError(plugin, phase, f"called sys.exit({error.code!r})") from None
    except BaseException as error:
        raise PluginError(plugin, phase, f"{type(error).__name__}: {error}{_where(error)}") from error


def _check_location(plugin: Plugin) -> None:
    """The module must be the distribution's own file, not another of that name earlier on the path."""
    top = plugin.module.partition(".")[0]
    spec = importlib.util.find_spec(top)
    found = Path(spec.origin) if spec and spec.origin else None
    depth = plugin.module.count(".") + (plugin.location is not None and plugin.location.name == "__init__.py")
    expected = plugin.location.parents[depth] if plugin.location else None
    if found is None or expected is None or not found.resolve().is_relative_to(expected.resolve()):
        raise ImportError(
            f"the module {top} would be imported from {found}, which is not part of {plugin.distribution}"
        )


def _where(error: BaseException) -> str:
    """The innermost place of an error, as `` (file:line)``."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def expired(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer in {seconds} seconds")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
