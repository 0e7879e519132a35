"""An import hook: modules of plugins are imported only from the files that their own distribution lists.

Whoever imports them, they are run from their source as it was when it was measured, or are extension modules.
What is in ``__pycache__`` is not looked at: an installer put it there, or anybody, and no digest covers it.
Modules of other distributions are imported as ever.
"""

from __future__ import annotations

import contextlib
import os.path
import sys
from importlib import import_module
from importlib.machinery import BYTECODE_SUFFIXES, SOURCE_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location

from pai_runtime.host import core_imports
from pai_runtime.host.code import Code
from pai_runtime.host.core_imports import OWN, lift, not_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import CodeType, ModuleType
    from typing import Any

_NO_PLUGINS = {*sys.stdlib_module_names, "pai_document", "pai_runtime", "pai_task"}
"""Top-level names under which no module of a plugin is imported."""


def register(codes: Iterable[Code]) -> None:
    """Run the modules of these distributions only from their measured source, from now on."""
    for code in codes:
        with contextlib.suppress(ValueError, ImportError, OSError):  # it is refused where a job names it
            _FINDER.add(code)
    _FINDER.be_first()


def refuse(names: Iterable[str]) -> None:
    """From now on, import no module of the registered distributions of these names, whoever asks for it."""
    _FINDER.refused = frozenset(names)


def register_when_needed(codes: Callable[[], Iterable[Code]]) -> None:
    """Register distributions lazily: each before the first import of what may be one of its modules.

    See `register`.
    """
    _FINDER.others = codes
    _FINDER.be_first()


def import_entry(code: Code, value: str) -> Any:
    """Import what a distribution's entry point (``module`` or ``module:object``) names; see `import_own`."""
    module, _, names = value.partition(":")
    found: Any = import_own(code, module.strip())
    for name in filter(None, names.strip().split(".")):
        found = getattr(found, name)
    return found


def import_own(code: Code, module: str) -> ModuleType:
    """Import a module of an allowed distribution.

    Raises ImportError, also if one of its packages belongs to another distribution. From now on, nothing that
    the distribution does not list is imported as part of its packages, whoever asks for it.
    """
    if not code.tops <= OWN:
        lift()
    register([code])
    _FINDER.guard(code)
    if module not in code.modules:
        raise ModuleNotFoundError(f"{code.distribution} has no module {module}")
    for name, imported in list(sys.modules.items()):
        if _is_claimed(code, name) and (spec := getattr(imported, "__spec__", None)):
            _check(code, name, spec)
    return import_module(module)


class _OwnModules:
    """A finder before all others, which verifies their results.

    It does not derive from `MetaPathFinder`: `importlib.abc` takes longer to import than a plugin.
    """

    def __init__(self) -> None:
        self._by_top: dict[str, list[Code]] = {}
        self._guarded: list[Code] = []
        self.others: Callable[[], Iterable[Code]] | None = None
        self._searched: set[str] = set()
        self.refused: frozenset[str] = frozenset()

    def add(self, code: Code) -> None:
        others, self.others = self.others, None  # where an editable one is, is no import
        try:
            tops = code.tops
        finally:
            self.others = others
        for top in tops:
            known = self._by_top.setdefault(top, [])
            if code not in known:
                known.insert(0, code)

    def guard(self, code: Code) -> None:
        if code not in self._guarded:
            self._guarded.append(code)

    def be_first(self) -> None:
        if sys.meta_path[0] is not self:
            sys.meta_path[:] = [self, *(finder for finder in sys.meta_path if finder is not self)]

    def _register_others(self, top: str) -> None:
        """Register what may have modules of a top-level name, which may be that of a namespace."""
        if top in self._searched:
            return
        others, self.others = self.others, None  # what this itself imports is looked for by nobody
        try:
            codes = list(others()) if others else []
            register(code for code in codes if code.may_have(top))
            others = lambda: codes  # noqa: E731 - as it was given
            self._searched.add(top)
        finally:
            self.others = others

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if self.others and top not in _NO_PLUGINS and not any(top in code.modules for code in self._guarded):
            self._register_others(top)
        codes = self._by_top.get(top)
        if not codes:
            return None
        others = (finder for finder in sys.meta_path if finder not in (self, core_imports.FINDER))
        found = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if found is None:
            return None
        for code in self._guarded:
            if _is_claimed(code, fullname):
                _check(code, fullname, found)
        # First the code that was measured for what is run here, whoever else says that a file is theirs.
        known = (*self._guarded, *codes)
        own = next((code for code in known if _is_own(code, fullname, found)), None)
        if own is None:
            return found
        if own.distribution in self.refused:
            why = f"the module {fullname} belongs to {own.distribution}, whose plugins are refused"
            return not_imported(found, why)
        return _from_source(own, fullname, found)


_FINDER = _OwnModules()


class _Source(SourceFileLoader):
    """A loader that runs source read before; it neither reads nor writes byte code."""

    def __init__(self, fullname: str, path: str, source: bytes) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_data(self, path: str) -> bytes:
        return self._source if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self._source, self.get_filename(fullname))
        return code


def _from_source(code: Code, name: str, found: ModuleSpec) -> ModuleSpec | None:
    path = str(found.origin)
    if not path.endswith(tuple(SOURCE_SUFFIXES)):
        return found  # an extension module
    loader = _Source(name, path, code.source(name))
    folders = found.submodule_search_locations
    return spec_from_file_location(name, path, loader=loader, submodule_search_locations=folders)


def _is_claimed(code: Code, name: str) -> bool:
    """Return whether a name is, or is inside, a module or package of the distribution."""
    parts = name.split(".")
    if parts[0] not in code.tops:
        return False
    prefixes = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return name in code.namespaces or any(prefix in code.modules for prefix in prefixes)


def _is_own(code: Code, name: str, spec: ModuleSpec) -> bool:
    path = code.module_file(name)
    return bool(path and spec.origin) and os.path.realpath(str(spec.origin)) == os.path.realpath(str(path))


def _check(code: Code, name: str, spec: ModuleSpec) -> None:
    """Raise ImportError unless a module belongs to its distribution or is a directory, which has no code."""
    if _is_own(code, name, spec) or (spec.origin is None and name not in code.modules):
        return
    what = f"the module {name} would be imported from {spec.origin}"
    if str(spec.origin).endswith(tuple(BYTECODE_SUFFIXES)):
        raise ImportError(f"{what}, but byte code without its source is not run")
    owner = _owner(str(spec.origin))
    raise ImportError(f"{what}, which belongs to {owner or 'no distribution'}, not to {code.distribution}")


def _owner(path: str) -> str | None:
    """Return name and version of the distribution that lists this file; None if none does."""
    from pai_runtime.host.installed import distributions  # noqa: PLC0415 - slow, and for a message only

    real, name = os.path.realpath(path), path[path.rfind("/") :]
    for distribution in distributions():
        code = Code(distribution)
        with contextlib.suppress(ValueError):
            # There are tens of thousands of files; to resolve the path of each takes a second.
            if any(each.endswith(name) and os.path.realpath(each) == real for each in code.files.values()):
                return f"{code.distribution} {code.version}"
    return None
