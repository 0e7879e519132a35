"""Construction of a bundle."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pai_pod.bundle.byte_code import add_byte_code
from pai_pod.bundle.contents import contents
from pai_pod.bundle.distributions import Bundled, bundled_distributions, bundled_plugins
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.files import files_below, write_file
from pai_pod.bundle.interpreter import STANDARD_LIBRARY, add_interpreter
from pai_pod.bundle.launcher import launcher
from pai_pod.bundle.programs import add_certificates, add_programs
from pai_pod.bundle.site import SITE, add_distribution
from pai_pod.bundle.static_programs import add_static_programs
from pai_pod.bundle_copy import CONTENTS
from pai_runtime.host.host import Host
from pai_task.paths import BUNDLE, LAUNCHER

_FOR_SCRIPTS = f"import sys\nsys.path.insert(0, {f'{BUNDLE}/{SITE}'!r})\n"
"""What lets scripts import plugins with ``$PAI_RUNTIME_PYTHON``; the runtime's own processes skip `site`."""


def make_bundle(target: Path, host: Host, say: Callable[[str], None]) -> None:
    """Make a bundle in `target`, which must be empty or not exist.

    It is to be at `pai_task.paths.BUNDLE`, and has the interpreter that runs this. Raises
    `CannotBundle` and OSError.
    """
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise CannotBundle(f"{target} is not empty; expected an empty directory, or one that does not exist")
    target.chmod(0o755)
    add_static_programs(target)
    libraries = add_interpreter(target)
    write_file(target / STANDARD_LIBRARY / "sitecustomize.py", _FOR_SCRIPTS.encode())
    distributions = bundled_distributions(host)
    for each in distributions:
        add_distribution(target, each, libraries)
    asked = [program for plugin in bundled_plugins(host) for program in plugin.manifest.programs]
    add_programs(target, asked, libraries, say)
    add_certificates(target)
    add_byte_code(target, _compiled(target, distributions))
    write_file(target / Path(LAUNCHER).name, launcher(), 0o755)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)
    made = contents(target, host, distributions)
    write_file(target / CONTENTS, json.dumps(made, indent=2).encode() + b"\n")
    plugins = ", ".join(sorted({each["id"] for each in made["plugins"]})) or "no plugin"
    say(f"{target} is a bundle of {made['size'] / 1e6:.0f} MB with Python {made['python']} and {plugins}")


def _compiled(target: Path, distributions: Iterable[Bundled]) -> Iterator[Path]:
    """Yield the modules to be compiled: all except plugins', which run from their measured source."""
    plugins = {target / SITE / top for each in distributions if each.is_plugin for top in each.code.tops}
    for path in files_below(target):
        if path.suffix == ".py" and not plugins.intersection([path.with_suffix(""), *path.parents]):
            yield path
