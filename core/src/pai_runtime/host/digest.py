"""The digest of a distribution's code, the same whichever installer put it there.

SHA-256 over the sorted rows ``path NUL sha256-of-the-file NEWLINE`` of all files that the distribution
installed below its import path, but not those that installers write themselves (``.dist-info`` except
``entry_points.txt``, ``__pycache__``, scripts). The files are read, so that a change after the installation
shows.
"""

import hashlib
from importlib.machinery import all_suffixes
from pathlib import Path, PurePath

from pai_runtime.host.discovery import (
    AnyDistribution,
    Plugin,
    name_and_version,
    normalized,
    origin,
    plugin_distributions,
)


def plugin_digest(plugin: Plugin) -> str:
    """The digest of the distribution that a plugin comes from; raises ValueError."""
    return distribution_digest(plugin.distribution)


def distribution_digest(name: str) -> str:
    """``sha256:…`` of a distribution that brings plugins; raises ValueError with the reason for none."""
    # Looked for as discovery does: what is measured must be what is imported.
    found = next(
        (
            each
            for each in plugin_distributions()
            if normalized(name_and_version(each)[0]) == normalized(name)
        ),
        None,
    )
    if found is None:
        raise ValueError(f"no distribution {name} with plugins is installed")
    if origin(found)[0] == "editable":
        raise ValueError(f"{name} is installed editable: its code has no fixed digest")
    rows = sorted(_rows(found))
    if not rows:
        raise ValueError(f"{name} does not say which files it installed")
    return "sha256:" + hashlib.sha256(b"".join(rows)).hexdigest()


def _rows(found: AnyDistribution) -> list[bytes]:
    rows = []
    try:
        files = found.files or ()
    except ValueError as error:
        raise ValueError(f"the list of the files of {found.name} cannot be read: {error}") from None
    for file in files:
        parts = file.parts
        if parts[0] == ".." or "__pycache__" in parts or _is_script(file):
            continue
        if parts[0].endswith(".dist-info"):
            if parts[-1] != "entry_points.txt":
                continue
            parts = parts[1:]
        try:
            content = Path(str(found.locate_file(file))).read_bytes()
        except OSError as error:
            raise ValueError(f"{found.name}: its file {file} cannot be read: {error.strerror}") from None
        rows.append(b"%s\0%s\n" % ("/".join(parts).encode(), hashlib.sha256(content).hexdigest().encode()))
    return rows


def _is_script(file: PurePath) -> bool:
    """Whether an installer made or changed it: with a target folder, some put scripts inside of it."""
    return file.parts[0] == "bin" and not file.name.endswith(tuple(all_suffixes()))
