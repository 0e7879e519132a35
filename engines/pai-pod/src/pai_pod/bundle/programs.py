"""Programs of this machine that allowed plugins need in tasks, in a bundle: OpenSSH and git.

A set of them has a directory of its own. In its ``libexec`` are the programs, in its ``bin`` a script for
each that starts it with no library, module or locale of the image.
"""

import shutil
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pai_pod.bundle.elf import is_elf
from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.files import copy_file, files_below, write_file
from pai_pod.bundle.libraries import Libraries
from pai_task.bundle import OBEYED_NAMES
from pai_task.paths import BUNDLE, BUNDLED_CERTIFICATES, CERTIFICATES, TOOLS

_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/openssh:/usr/lib/git-core"
_GIT_CORE, _GIT_TEMPLATES = Path("/usr/lib/git-core"), Path("/usr/share/git-core/templates")

_NSS_WRAPPER = "libnss_wrapper.so"
"""The library that gives a program users and groups from files that variables name."""

_PRIVSEP_FOLDER = b"/run/sshd\0", b"/usr\0sshd\0"
"""The directory that sshd as root needs, which nobody else can write to, and its replacement.

An image need not have the first, and may be read-only; the second is above the bundle. The last part stays,
because it is the name of sshd's user, too.
"""

_LOADERS = (
    *("AUDIT", "BIND_NOT", "BIND_NOW", "DEBUG", "DEBUG_OUTPUT", "DYNAMIC_WEAK", "HWCAP_MASK", "LIBRARY_PATH"),
    *("ORIGIN_PATH", "PREFER_MAP_32BIT_EXEC", "PRELOAD", "PROFILE", "PROFILE_OUTPUT", "SHOW_AUXV"),
    *("TRACE_LOADED_OBJECTS", "TRACE_PRELINKING", "USE_LOAD_BIAS", "VERBOSE", "WARN"),
)
"""Variables of the dynamic loader, without ``LD_``: all those in ld.so(8)."""

# Busybox's shell, because bash would warn of every locale that the image does not have.
_SCRIPT = """\
#!{prefix}/applets/sh
# Starts {name} of the bundle: what an image sets for its own programs is not for this one.
unset {names}
export LC_ALL=C.UTF-8 OPENSSL_CONF=/dev/null
{settings}exec {prefix}/{folder}/libexec/{name} "$@"
"""

_GIT_SETTINGS = f"""\
export GIT_EXEC_PATH={BUNDLE}/git/libexec GIT_TEMPLATE_DIR={BUNDLE}/git/templates
for file in {" ".join(CERTIFICATES)} {BUNDLED_CERTIFICATES}; do
    [ ! -e $file ] || break
done
[ $file = {CERTIFICATES[0]} ] || export GIT_SSL_CAINFO="${{GIT_SSL_CAINFO-$file}}"
"""


@dataclass(frozen=True)
class ProgramSet:
    """A set of programs that belong together, with the `helpers` that this machine's version has.

    Symbols of the libraries `preloaded` take precedence in all of them. `settings` are lines of their
    scripts.
    """

    name: str
    programs: tuple[str, ...]
    helpers: tuple[str, ...]
    packages: str
    preloaded: tuple[str, ...] = ()
    settings: str = ""

    @property
    def missing(self) -> list[str]:
        """The names of programs and libraries of the set that this machine does not have."""
        programs = [name for name in self.programs if _found(name) is None]
        return [*programs, *(name for name in self.preloaded if not any(Path("/usr/lib").glob(f"*/{name}")))]


_SSH = ProgramSet(
    "ssh",
    ("sshd", "ssh", "scp", "sftp", "sftp-server"),
    ("sshd-session", "sshd-auth"),  # since OpenSSH 9.8
    "openssh-server openssh-client libnss-wrapper",
    preloaded=(_NSS_WRAPPER,),
)
_GIT = ProgramSet(
    "git", ("git",), ("git-remote-http", "git-sh-i18n--envsubst"), "git", settings=_GIT_SETTINGS
)


def add_programs(
    target: Path, asked: Iterable[str], libraries: Libraries, say: Callable[[str], None]
) -> None:
    """Copy the sets that contain a program `asked` for by a manifest.

    Reports sets that this machine does not have. Raises `CannotBundle`.
    """
    names = {name for program in asked for name in program.split()[:1]}
    for each in (_SSH, _GIT):
        if not names.intersection(each.programs):
            continue
        if each.missing:
            missing, get = ", ".join(each.missing), f"apt-get install {each.packages}"
            say(f"the bundle has no {each.name}: this machine lacks {missing}; on Debian: {get}")
            continue
        _add_set(target, each, libraries)
        if each is _GIT:
            _add_git_core(target / each.name)
        else:
            _move_privsep_folder(target / each.name / "libexec")


def _add_set(target: Path, each: ProgramSet, libraries: Libraries) -> None:
    for name in (*each.programs, *each.helpers):
        if source := _found(name):
            libraries.add_program(source, target / each.name / "libexec" / name, *each.preloaded)
    names = [*OBEYED_NAMES, *(f"LD_{name}" for name in _LOADERS)]
    for name in each.programs:
        script = _SCRIPT.format(
            prefix=BUNDLE, folder=each.name, name=name, names=" ".join(names), settings=each.settings
        )
        write_file(target / each.name / "bin" / name, script.encode(), 0o755)


def _move_privsep_folder(libexec: Path) -> None:
    old, new = _PRIVSEP_FOLDER
    for program in sorted(libexec.glob("sshd*")):
        data = program.read_bytes()
        found = data.count(old)
        if program.name == "sshd" and found != 1:
            raise CannotBundle(
                f"cannot bundle sshd: expected Debian's, with /run/sshd in it once, found {found}"
            )
        program.write_bytes(data.replace(old, new))


def _add_git_core(folder: Path) -> None:
    """Add the programs that git starts for a clone, and its templates for repositories."""
    (folder / "libexec/git-remote-https").symlink_to("git-remote-http")
    for name in ("git-sh-setup", "git-sh-i18n", "git-submodule"):  # the image may have no shell
        _, _, script = (_GIT_CORE / name).read_bytes().partition(b"\n")
        write_file(folder / "libexec" / name, f"#!{TOOLS}/sh\n".encode() + script, 0o755)
    for path in files_below(_GIT_TEMPLATES):
        copy_file(path, folder / "templates" / path.relative_to(_GIT_TEMPLATES))


def _found(name: str) -> Path | None:
    found = shutil.which(name, path=_FOLDERS)
    return Path(found) if found and is_elf(Path(found)) else None


def add_certificates(target: Path) -> None:
    """Copy this machine's CA certificates, for images that have none; raises `CannotBundle`."""
    places = [ssl.get_default_verify_paths().cafile, *CERTIFICATES]
    found = next((Path(place) for place in places if place and Path(place).is_file()), None)
    if found is None:
        raise CannotBundle("this machine has no CA certificates; on Debian: apt-get install ca-certificates")
    copy_file(found, target / BUNDLED_CERTIFICATES.removeprefix(f"{BUNDLE}/"))
