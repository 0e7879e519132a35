"""The code of an installed distribution: its files and their digests.

Its digest is SHA-256 over the sorted rows ``path NUL sha256-of-the-file NEWLINE`` of all files that the
distribution lists below its import path, but not those that installers write themselves, and of its entry
points, listed or not: it is the same whichever installer put them there. What is not in the digest is not
run (`pai_runtime.host.own_modules`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from functools import cached_property
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES, all_suffixes
from importlib.util import find_spec
from pathlib import Path

from pai_runtime.host.metadata import entry_points, name_and_version, origin, text
from pai_task.regular_file import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pai_runtime.host.metadata import Distribution

GROUP = "pai_runtime.plugins"
"""The group of entry points in which distributions name their plugins."""

_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"}

_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)
"""The suffixes of modules that are run, in Python's own order; byte code is not among them."""

_ENTRY_POINTS = "/entry_points.txt"
"""The row of the entry points in the digest; no file below the import path begins like this."""

_PLAIN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
"""A relative path that is already normalised, as most are."""

_CHUNK = 1 << 20


class Code:
    """The code of one distribution; each file is read at most once, when it is first needed."""

    def __init__(self, distribution: Distribution) -> None:
        self.installed = distribution
        self.folder = distribution.folder
        self._base = os.path.abspath(self.folder)  # noqa: PTH100 - much faster, and leaves links
        self.distribution, self.version = name_and_version(distribution)
        self.origin, self._source = origin(distribution)

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The paths of the distribution's own files by name below the import path. Raises ValueError.

        For an editable distribution, which lists none, these are the modules below its source folder.
        """
        if self.origin == "editable":
            return dict(self._editable_files())
        listed = self._listed
        return {name: f"{self._base}/{name}" for name in listed if not self._is_installers(name, listed)}

    @cached_property
    def modules(self) -> Mapping[str, str]:
        """The names of the distribution's modules and packages, each with its name in `files`."""
        found: dict[str, tuple[tuple[bool, int], str]] = {}
        for file in self.files:
            suffix = next(filter(file.endswith, _SUFFIXES), None)
            if suffix:
                parts = file.removesuffix(suffix).split("/")
                is_module = parts[-1] != "__init__"
                name = ".".join(parts if is_module else parts[:-1])
                if name and all(part.isidentifier() for part in parts):
                    # Several files for one module: the one that Python itself prefers takes precedence.
                    rank = is_module, _SUFFIXES.index(suffix)
                    found[name] = min(found.get(name, (rank, file)), (rank, file))
        return {name: file for name, (_, file) in found.items()}

    @cached_property
    def tops(self) -> frozenset[str]:
        """The top-level names of the distribution's modules."""
        return frozenset(name.partition(".")[0] for name in self.modules)

    def may_have(self, top: str) -> bool:
        """Return False if no module of the distribution has this top-level name; much faster than `tops`."""
        if self.origin == "editable":
            return top in self._entry_tops
        listed = text(self.installed, "RECORD") or ""
        return f"{top}/" in listed or f"{top}." in listed or '"' in listed  # CSV may quote any part of a name

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """The names of namespace packages: those that contain its modules and have no file."""
        parents = {name.rpartition(".")[0] for name in self.modules}
        while above := {name.rpartition(".")[0] for name in parents} - parents:
            parents |= above
        return frozenset(parents - self.modules.keys() - {""})

    def module_file(self, module: str) -> Path | None:
        """Return the path of a module; None if it is not one of the distribution's own."""
        return Path(self.files[self.modules[module]]) if module in self.modules else None

    def read(self, path: Path) -> str:
        """Return the text of one of the files. Raises OSError, or ValueError if it is not UTF-8."""
        with self.installed.open(str(path)) as file:
            return file.read().decode()

    def source(self, module: str) -> bytes:
        """Return the source of a module, as read for the digest. Raises ImportError if there is none."""
        try:
            _, sources = self._measured
            return sources[self.modules[module]]
        except KeyError:
            raise ImportError(f"{self.distribution} has no source for the module {module}") from None
        except ValueError as error:
            raise ImportError(str(error)) from None

    @cached_property
    def digest(self) -> str:
        """The digest as ``sha256:…``. Raises ValueError with the reason if there is none."""
        if self.origin == "editable":
            raise ValueError(f"{self.distribution} is an editable install, whose code has no fixed digest")
        hashes, _ = self._measured
        if not hashes:
            raise ValueError(f"{self.distribution} has no list of the files that it installed")
        points = text(self.installed, "entry_points.txt") or ""
        hashes = {**hashes, _ENTRY_POINTS: hashlib.sha256(points.encode()).hexdigest()}
        rows = sorted(b"%s\0%s\n" % (name.encode(), each.encode()) for name, each in hashes.items())
        return "sha256:" + hashlib.sha256(b"".join(rows)).hexdigest()

    @property
    def pinned(self) -> str | None:
        """The digest; None for an editable distribution, whose code may change. Raises ValueError."""
        return None if self.origin == "editable" else self.digest

    @property
    def changed_files(self) -> list[str]:
        """The names of files that differ from the hashes in the installer's record. Raises ValueError."""
        hashes, _ = self._measured
        noted = {
            name: hash_.removeprefix("sha256=") for name, hash_ in self._listed.items() if "sha256=" in hash_
        }
        return [name for name, hash_ in hashes.items() if name in noted and noted[name] != _as_noted(hash_)]

    @property
    def startup_files(self) -> list[str]:
        """The names of files that run code at the start of every Python that has them on its path."""
        try:
            return [name for name in self._listed if _runs_at_startup(name, Path(self._base, name))]
        except ValueError:
            return []

    @cached_property
    def _measured(self) -> tuple[dict[str, str], dict[str, bytes]]:
        """The SHA-256 of each file, and the content of each source file."""
        hashes, sources = {}, {}
        for name, path in self.files.items():
            hash_ = hashlib.sha256()
            try:
                with self.installed.open(path) as file:
                    if name.endswith(tuple(SOURCE_SUFFIXES)):
                        sources[name] = file.read()
                        hash_.update(sources[name])
                    while chunk := file.read(_CHUNK):
                        hash_.update(chunk)
            except FileNotFoundError:
                continue  # images are made smaller by such means; a digest without the file is another one
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise ValueError(f"{self.distribution}: its file {name!r} cannot be read: {why}") from None
            hashes[name] = hash_.hexdigest()
        return hashes, sources

    @cached_property
    def _listed(self) -> dict[str, str]:
        """The files that ``RECORD`` lists below the import path, with the recorded hashes."""
        found: dict[str, str] = {}
        try:
            for row in csv.reader(io.StringIO(self.installed.read_text("RECORD") or "", newline="")):
                name = row[0] if row else ""
                if not _PLAIN.fullmatch(name):
                    path = os.path.normpath(os.path.join(self._base, name))  # noqa: PTH118 - much faster
                    name = path[len(self._base) + 1 :] if path.startswith(f"{self._base}/") else ""
                if name:
                    found[name] = "".join(row[1:2])
        except (ValueError, csv.Error) as error:
            message = f"cannot read the list of the files of {self.distribution}: {error}"
            raise ValueError(message) from None
        return found

    def _is_installers(self, name: str, listed: Mapping[str, str]) -> bool:
        """Return whether an installer created or changed this file and nothing imports it."""
        folder, _, base = name.rpartition("/")
        if folder.endswith(".dist-info") and base in _INSTALLERS:
            return True
        if folder == "bin":  # with a target folder, some put scripts inside of it
            groups = "console_scripts", "gui_scripts"
            scripts = {script for script, _ in entry_points(self.installed, *groups)}
            return base in scripts and not base.endswith(tuple(all_suffixes()))
        parent, _, cache = folder.rpartition("/")
        module, _, tag = base.partition(".")
        is_cached = cache == "__pycache__" and tag.count(".") and base.endswith(tuple(BYTECODE_SUFFIXES))
        return bool(is_cached) and f"{parent}/{module}.py".lstrip("/") in listed

    @property
    def _entry_tops(self) -> frozenset[str]:
        """The top-level names of the modules that its entry points for plugins name."""
        modules = (value.partition(":")[0].strip() for _, value in entry_points(self.installed, GROUP))
        return frozenset(module.partition(".")[0] for module in modules)

    def _editable_files(self) -> Iterator[tuple[str, str]]:
        source = self._source and self._source.resolve()
        for top in self._entry_tops:
            spec = find_spec(top) if top.isidentifier() else None
            if spec is None or source is None:
                continue
            # A package may have no file of its own, and be in several folders.
            for location in spec.submodule_search_locations or filter(None, [spec.origin]):
                # An isolated task has the folders of the machine once more, below another one.
                if any(str(above).endswith(str(source)) for above in Path(location).resolve().parents):
                    yield from _modules_at(location)


def _modules_at(location: str) -> Iterator[tuple[str, str]]:
    """Yield the modules in a package, or a single one, with their paths; without pathlib, which is slow."""
    above, base = os.path.split(location)
    walked = os.walk(location) if os.path.isdir(location) else [(above, [], [base])]  # noqa: PTH112 - as above
    for folder, _, names in walked:
        for name in names:
            if name.endswith(_SUFFIXES):
                yield f"{folder}/{name}"[len(above) + 1 :], f"{folder}/{name}"


def sole(name: str, distributions: Iterable[Distribution]) -> Code:
    """Return the code of the first of these distributions, which all have one name.

    Raises LookupError if there is none, or another one in the same folder.
    """
    same = list(distributions)
    if not same:
        raise LookupError(f"no distribution {name} is installed")
    found = [each for each in same if each.folder == same[0].folder]
    if len(found) > 1:
        raise LookupError(
            f"{found[0].folder} has two distributions {name}: {', '.join(each.info for each in found)}"
        )
    return Code(found[0])


def _as_noted(hash_: str) -> str:
    from base64 import urlsafe_b64encode  # noqa: PLC0415 - not for those who only need the digest

    return urlsafe_b64encode(bytes.fromhex(hash_)).rstrip(b"=").decode()


def _runs_at_startup(name: str, path: Path) -> bool:
    if name.partition("/")[0].partition(".")[0] in ("sitecustomize", "usercustomize"):
        return name.endswith(tuple(all_suffixes()))
    if "/" in name or not name.endswith(".pth"):
        return False
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8-sig", "replace").splitlines()
    except OSError:
        return True
    return any(line.startswith(("import ", "import\t")) for line in lines)
