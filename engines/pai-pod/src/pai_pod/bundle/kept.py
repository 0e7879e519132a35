"""The bundle of this machine, made when it is first needed and kept, as in the user's cache."""

import contextlib
import errno
import hashlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from pai_document.configuration_files import user_directory
from pai_pod.bundle.distributions import Bundled, bundled_distributions
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.make import make_bundle
from pai_pod.bundle_copy import CONTENTS
from pai_runtime.host.policies_in_force import given_host

VARIABLE: Final = "PAI_RUNTIME_BUNDLE"
"""The variable that names the directory of a bundle, to be used instead."""
_UNUSED_FOR: Final = 30 * 24 * 3600.0
"""Seconds after which an old bundle is removed."""


def kept_bundle(say: Callable[[str], None], kept: Path | None = None) -> Path:
    """Return the directory of a bundle with the plugins that the policies in force allow.

    It is made anew when what it would contain has changed, and is below the directory `kept`, or in the
    user's cache. Raises `CannotBundle`, `InvalidInput` and OSError.
    """
    if given := os.environ.get(VARIABLE):
        if not Path(given, CONTENTS).is_file():
            raise CannotBundle(f"{VARIABLE}: expected the directory of a bundle, found {given!r}")
        return Path(given).absolute()
    host = given_host(None)
    kept = kept or _cache()
    bundle = kept / _key(bundled_distributions(host))
    if (bundle / CONTENTS).is_file():
        os.utime(bundle)
        return bundle
    say("note: making the bundle that containers run; this is done once")
    kept.mkdir(0o700, parents=True, exist_ok=True)
    aside = Path(mkdtemp(dir=kept, prefix=".part-"))
    try:
        make_bundle(aside, host, _nobody)
        _place(aside, bundle)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _remove_old(kept, time.time() - _UNUSED_FOR)
    return bundle


def _cache() -> Path:
    cache = user_directory("XDG_CACHE_HOME", ".cache")
    if cache is None:
        raise CannotBundle(f"no home directory to keep a bundle in; set {VARIABLE} to the path of one")
    return cache / "bundles"


def _nobody(_text: str) -> None:
    """Drop what is said of a bundle that nobody has asked for."""


def _place(made: Path, bundle: Path) -> None:
    try:
        made.rename(bundle)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # else another run has made the same one
            raise


def _key(distributions: list[Bundled]) -> str:
    """Return what identifies the content of a bundle, by the times and sizes of its files."""
    rows = [f"{platform.python_version()} {platform.machine()}"]
    for each in distributions:
        rows.append(f"{each.code.distribution} {each.code.version} {each.is_plugin}")
        rows += _files(each)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def _files(bundled: Bundled) -> Iterator[str]:
    for name, path in sorted(bundled.code.files.items()):
        status = Path(path).stat()
        yield f"{name} {status.st_size} {status.st_mtime_ns}"


def _remove_old(kept: Path, before: float) -> None:
    for each in kept.iterdir():
        with contextlib.suppress(OSError):
            if each.stat().st_mtime < before:
                shutil.rmtree(each)
