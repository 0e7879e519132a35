"""This machine's files with a writable layer of a task's own, so that a local run changes nothing else.

A mount namespace (as an ordinary user in a user namespace, with the same user) gets a new root:

1. `WRITTEN` below the task's folder is the root. It is a real folder, so what is written is kept.
2. Each folder of the machine's root is there as an overlay whose upper layer is the folder of that name in
   `WRITTEN`; what is mounted below it is layered on top in the same way. One overlay over ``/`` is refused
   because of the mounts below it. In a user namespace that holds for each folder, and one with mounts below
   it is made anew, entry by entry. What cannot be a layer is read-only.
3. ``/proc``, ``/sys`` and ``/dev`` are the machine's own, what can be set in the first two read-only, with
   a ``/dev/shm`` of the task's own.
4. What has to be a real folder is bound on top: the task's folder, and storage.

All of it ends with the last process of the namespace; nothing has to be unmounted. What the kernel needs
for the layers, and what `clean_up` has to know, is in a folder that the task does not see the like of.
"""

import contextlib
import ctypes
import json
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pai_runtime.task import __main__ as supervisor
from pai_runtime.task.supervisor import cannot_run

WRITTEN = "written"
"""The folder in a task's folder with what the task wrote elsewhere; a device 0/0 is a deleted file."""

_MADE = "made.json"
_MACHINE = ("proc", "sys", "dev")

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_MNT_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_SYS_MOUNT_SETATTR = 442
_CAPABILITY_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Bind:
    """A real folder or file of this machine, and where a task sees it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Trial:
    """Whether tasks can be isolated on this machine: why not, or which folders are then read-only."""

    refusal: str | None
    read_only: tuple[str, ...] = ()


def try_out(scratch: Path) -> Trial:
    """Isolate a process; `scratch` is made and removed."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            with os.fdopen(write, "w") as answer:
                json.dump(_trial(scratch), answer)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read() or b'["a trial of it ended without a word", []]'
    refusal, read_only = json.loads(text)
    os.waitpid(pid, 0)
    clean_up(scratch / "task", scratch / "layers")
    shutil.rmtree(scratch, ignore_errors=True)
    return Trial(refusal, tuple(read_only))


def _trial(scratch: Path) -> tuple[str | None, list[str]]:
    isolation = Isolation(scratch / "task", scratch / "layers", [])
    try:
        isolation.enter()
    except OSError as error:
        return _text(error), []
    return None, isolation.read_only


def argument(folder: Path, layers: Path, binds: Sequence[Bind]) -> str:
    """What `main` needs to know, as its first argument."""
    return json.dumps(
        [str(folder), str(layers), [[each.source, each.target, each.read_only] for each in binds]]
    )


def main() -> int:
    """Isolate this process, then be the task supervisor; its exit code."""
    folder, layers, binds = json.loads(sys.argv.pop(1))
    try:
        Isolation(Path(folder), Path(layers), [Bind(*bind) for bind in binds]).enter()
    except OSError as error:
        return cannot_run(Path(folder), f"the task cannot be isolated: {_text(error)}")
    return supervisor.main()


def _text(error: OSError) -> str:
    return f"{error.filename or 'namespaces'}: {error.strerror}"


def clean_up(folder: Path, layers: Path) -> None:
    """Remove what only the kernel needed, and the folders into which the task has written nothing."""
    root = folder / WRITTEN
    placeholders, uppers = [], []
    with contextlib.suppress(OSError, ValueError):
        placeholders, uppers = json.loads((layers / _MADE).read_bytes())
    for path in map(Path, placeholders):
        if _is_inside(root, path):
            path.unlink(missing_ok=True)
    _remove_empty(root)
    for upper, path in uppers:
        _remove_empty(Path(upper))
        target = root / path.lstrip("/")
        if Path(upper).is_dir() and _is_inside(root, target):
            with contextlib.suppress(OSError):
                target.parent.mkdir(parents=True, exist_ok=True)
                Path(upper).rename(target)
    for work in layers.glob("*/work/work"):
        work.chmod(0o700)  # the kernel leaves it without any permission
    shutil.rmtree(layers, ignore_errors=True)


def _is_inside(root: Path, path: Path) -> bool:
    """Whether a path is still below `root`: the task may have put a link in its way."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(root))


def _remove_empty(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            Path(path).rmdir()


class Isolation:
    """The new root of one task, below `folder`; what the kernel needs for it is below `layers`."""

    def __init__(self, folder: Path, layers: Path, binds: Sequence[Bind]) -> None:
        self._root = folder / WRITTEN
        self._layers = layers
        # A link on the way would lead out of the new root while it is being made.
        self._own = [Bind(str(folder), os.path.realpath(target)) for target in (folder, "/usr/local/pai")]
        self._binds = [Bind(each.source, os.path.realpath(each.target), each.read_only) for each in binds]
        self._overlays = 0
        self._has_worked = False
        self._placeholders: list[str] = []
        self._uppers: list[tuple[str, str]] = []
        self.read_only: list[str] = []

    def enter(self) -> None:
        """Make the root and go into it; raises OSError with the path or the step that the kernel refuses."""
        for folder in (self._root, self._layers):
            folder.mkdir(parents=True)
        is_ordinary = _new_namespaces()
        self._options = ",userxattr" if is_ordinary else ""
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
        self._mounted = _mount_points()
        # From here the upper layers' paths are relative to the folder itself, not to what is mounted on it: a
        # layer and its work folder must be in one mount.
        os.chdir(self._root)
        _mount(str(self._root), str(self._root), None, _MS_BIND)
        for bind in (*self._own, *self._binds):
            self._make(Path(bind.target))
        self._each_below(Path("/"))
        self._machine()
        for bind in self._own:
            self._bind(bind, _MS_BIND)  # without the new root, which is mounted in it
        for bind in self._binds:
            self._bind(bind)
        (self._layers / _MADE).write_text(json.dumps([self._placeholders, self._uppers]))
        os.chdir(self._root)
        _check(_libc.pivot_root(b".", b"."), "pivot_root")
        _check(_libc.umount2(b".", _MNT_DETACH), "umount")
        os.chdir("/")
        if os.geteuid() != 0:
            _drop_capabilities()

    def _each_below(self, folder: Path) -> None:
        """Make a folder anew, entry by entry."""
        for entry in os.scandir(folder):
            if folder == Path("/") and entry.name in _MACHINE:
                continue
            try:
                self._entry(Path(entry.path))
            except FileNotFoundError:
                if os.path.lexists(entry.path):  # else it has been removed meanwhile
                    raise

    def _entry(self, path: Path) -> None:
        if path.is_symlink():
            self._inside(path).symlink_to(path.readlink())
            self._placeholders.append(str(self._inside(path)))
        elif path.is_dir():
            self._make(path)
            self._layer(path)
        else:
            self._bind(Bind(str(path), str(path), read_only=True))

    def _layer(self, path: Path, *, on_another: bool = False) -> None:
        """Mount an overlay over a folder, and what is mounted below it on top."""
        below = self._outermost_below(path)
        try:
            self._overlay(path, on_another=on_another)
        except OSError as error:
            if not below:
                if not self._has_worked:  # then it is not this folder's fault
                    raise
                self.read_only.append(f"{path}: {error.strerror}")
                self._bind(Bind(str(path), str(path), read_only=True))
                return
            if any(entry.is_file(follow_symlinks=False) for entry in os.scandir(path)):
                self.read_only.append(f"{path}: the files in it, because of {below[0]}")
            self._each_below(path)
            return
        self._has_worked = True
        for mounted in below:
            if mounted.is_dir():
                self._layer(mounted, on_another=True)
            else:
                self._bind(Bind(str(mounted), str(mounted), read_only=True))

    def _overlay(self, path: Path, *, on_another: bool) -> None:
        self._overlays += 1
        own = self._layers / str(self._overlays)
        (own / "work").mkdir(parents=True)
        upper = path.relative_to("/")
        if on_another:  # whose upper layer must not have this one's in it
            upper = own / "upper"
            upper.mkdir(mode=0o755)
            _like(upper, path)
            self._uppers.append((str(upper), str(path)))
        layers = f"lowerdir={_escaped(path)},upperdir={_escaped(upper)},workdir={_escaped(own / 'work')}"
        _mount("overlay", str(self._inside(path)), "overlay", 0, layers + self._options)

    def _outermost_below(self, path: Path) -> list[Path]:
        below = sorted(each for each in set(self._mounted) if each.is_relative_to(path) and each != path)
        return [each for each in below if not any(other in each.parents for other in below)]

    def _machine(self) -> None:
        for name in _MACHINE:
            target = self._inside(f"/{name}")
            target.mkdir(exist_ok=True)
            _mount(f"/{name}", str(target), None, _MS_BIND | _MS_REC)
        _read_only(self._inside("/sys"))
        settings = str(self._inside("/proc/sys"))
        _mount(settings, settings, None, _MS_BIND)
        _read_only(self._inside("/proc/sys"))
        shared = self._inside("/dev/shm")  # noqa: S108 - the system's, not a file of ours
        if shared.is_dir() and not shared.is_symlink():
            _mount("tmpfs", str(shared), "tmpfs", 0, "mode=1777")

    def _bind(self, bind: Bind, flags: int = _MS_BIND | _MS_REC) -> None:
        target = self._inside(bind.target)
        if Path(bind.source).is_dir():
            self._make(Path(bind.target))
        elif not target.exists():
            target.touch()
            self._placeholders.append(str(target))
        _mount(bind.source, str(target), None, flags)
        if bind.read_only:
            _read_only(target)

    def _make(self, path: Path) -> None:
        """A folder of the new root with the permissions of the machine's, if it has one there."""
        for folder in (*reversed(path.parents), path):
            inside = self._inside(folder)
            if not inside.is_dir():
                inside.mkdir()
                _like(inside, folder)

    def _inside(self, path: str | Path) -> Path:
        return self._root / str(path).lstrip("/")


def _like(folder: Path, known: Path) -> None:
    """Give a folder the permissions of another, if that one is there."""
    if known.is_dir():
        status = known.stat()
        folder.chmod(stat.S_IMODE(status.st_mode))
        if os.geteuid() == 0:
            os.chown(folder, status.st_uid, status.st_gid)


def _new_namespaces() -> bool:
    """Whether it took a user namespace, as it does for all but a root with all its rights."""
    if os.geteuid() == 0 and _libc.unshare(_CLONE_NEWNS) == 0:
        return False
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "a user namespace")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text)
    return True


def _mount_points() -> list[Path]:
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return [Path(os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1"))) for line in lines]


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    given = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*given, ctypes.c_ulong(flags), os.fsencode(options)), target)


def _read_only(path: Path) -> None:
    """Make what is mounted at `path`, and below it, read-only (Linux 5.12)."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY)
    flags, size = _AT_RECURSIVE, ctypes.sizeof(attributes)
    given = (_AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(size))
    _check(_libc.syscall(_SYS_MOUNT_SETATTR, *given), str(path))


def _drop_capabilities() -> None:
    """Those that the user namespace brought; with them its children could not open our files in /proc."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _escaped(path: Path) -> str:
    """A path in the options of an overlay, where comma and colon separate."""
    return "".join(f"\\{letter}" if letter in "\\,:" else letter for letter in str(path))


if __name__ == "__main__":
    sys.exit(main())
