"""The digest of a distribution's code, the same whichever installer put it there.

SHA-256 over the sorted rows ``path NUL sha256-of-the-file NEWLINE`` of all files that the distribution
installed below its import path, but not those that installers write themselves (``.dist-info`` except
``entry_points.txt``, byte code, scripts). The files are read, so that a change after the installation shows.
"""

import hashlib
from pathlib import Path

from importlib_metadata import PackageNotFoundError, distribution

from pai_runtime.host.discovery import AnyDistribution, Plugin, origin


def plugin_digest(plugin: Plugin) -> str:
    """The digest of the distribution that a plugin comes from; raises ValueError."""
    return distribution_digest(plugin.distribution)


def distribution_digest(name: str) -> str:
    """``sha256:…`` of an installed distribution; raises ValueError with the reason why there is none."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise ValueError(f"the distribution {name} is not installed") from None
    if origin(found)[0] == "editable":
        raise ValueError(f"{name} is installed editable: its code has no fixed digest")
    rows = sorted(_rows(found))
    if not rows:
        raise ValueError(f"{name} does not say which files it installed")
    return "sha256:" + hashlib.sha256(b"".join(rows)).hexdigest()


def _rows(found: AnyDistribution) -> list[bytes]:
    rows = []
    for file in found.files or ():
        parts = file.parts
        if parts[0] == ".." or "__pycache__" in parts or file.suffix == ".pyc":
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
