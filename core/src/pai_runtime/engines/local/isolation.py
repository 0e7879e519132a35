"""Isolation: a writable layer per task over this machine's files, so that a local run changes nothing else.

A process in namespaces of its own (for an ordinary user a user namespace too, with the same user) gets a
new root:

1. `WRITTEN` in the task's folder is the root. It is a real folder, so what is written is kept.
2. The machine's root is there as an overlay whose upper layer is `WRITTEN`; what is mounted below it is
   layered on top in the same way. In a user namespace an overlay over a folder is refused because of mounts
   below it: there each folder of the machine's root has one, and a folder with mounts below it is made anew,
   entry by entry. What cannot be a layer is read-only.
3. Storage is bound on top, by paths without links.
4. ``/proc`` has only the processes of the task; ``/sys`` and ``/dev`` are the machine's own, with a
   ``/dev/shm`` of the task's own. What can be set in the first two is read-only.
5. Of the folder of the run there is only the task's own folder: in it ``work``, which is a layer over the
   job's code if it has any; ``logs``, read-only;
   ``private``, in memory; a copy of the runtime, read-only; and what else the task puts there, which `FILES`
   has outside. All else of the run, such as plans, records and `WRITTEN`, the task cannot see.

All of it ends with the first process of the namespaces, and so does every other process in them; nothing
has to be unmounted. What the kernel needs for the layers, and what `clean_up` has to know, is in the folder
of the run.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from pai_runtime.engines.local.launch import Bind, Isolated
from pai_runtime.engines.local.mounting import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    enter_root,
    make_read_only,
    mount,
    mount_points,
)
from pai_runtime.engines.local.namespaces import CLONE_NEWUSER, give_up_tracing, keep_user
from pai_task.folder import Folder
from pai_task.layout import ATTEMPTS, FILES, LOGS, PRIVATE, RUNTIME, WORK, WRITTEN
from pai_task.paths import VOLUME

PLATFORM = Path(VOLUME)
"""The path at which a task finds its own folder, whatever its path is outside."""
_MACHINE = ("proc", "sys", "dev")
_OWN = (WORK, LOGS, PRIVATE, RUNTIME)

_MADE = "made.json"
_UPPER = ".upper"
_MOST_MADE = 64 * 1024 * 1024
_MOST_PRIVATE = "64m"


def make_folders(task: Folder) -> None:
    """Create the parts of a task's folder that `Isolation` shows."""
    for name in (WORK, LOGS, *(f"{FILES}/{own}" for own in _OWN)):
        task.make(name)


def clean_up(run: Folder, task: str, layers: str) -> None:
    """Remove the kernel's files, and the directories to which the task has written nothing.

    `task` and `layers` are the names of their folders in that of the run.
    """
    with run.folder(task) as own:
        with contextlib.suppress(FileNotFoundError), own.folder(FILES) as files:
            _take_out(files, own)
        own.remove_if_empty(FILES)
        with contextlib.suppress(FileNotFoundError), own.folder(WRITTEN) as written:
            _take_in(run, layers, written)
        own.remove_if_empty(WRITTEN)
    above, _, name = layers.rpartition("/")
    with contextlib.suppress(FileNotFoundError), run.folder(above) as all_layers:
        all_layers.remove(name)


def _take_out(files: Folder, own: Folder) -> None:
    """Move what the task wrote to its folder to where it would be without isolation, unless that exists."""
    for name in files.names():
        with contextlib.suppress(OSError):
            if name in _OWN:
                files.remove_if_empty(name)
            elif name != ATTEMPTS and not own.exists(name):
                files.move(name, own, name)


def _take_in(run: Folder, layers: str, written: Folder) -> None:
    """Move layers kept elsewhere to the task's written files, and remove the kernel's placeholders."""
    placeholders, uppers = [], []
    with contextlib.suppress(OSError, ValueError):
        placeholders, uppers = json.loads(run.read(f"{layers}/{_MADE}", _MOST_MADE))
    for name in placeholders:
        with contextlib.suppress(OSError):  # the task may have put a link in its way
            written.unlink(name)
    written.remove_empty()
    for number, path in uppers:
        with contextlib.suppress(OSError), run.folder(layers) as own:
            name = f"{number}{_UPPER}"
            with own.folder(name) as upper:
                upper.remove_empty()
            if not own.remove_if_empty(name):
                own.move(name, written, path)


@contextlib.contextmanager
def _unless_removed(path: str | Path) -> Iterator[None]:
    """Suppress that something of the machine does not exist if others have removed it in the meantime."""
    try:
        yield
    except FileNotFoundError:
        if os.path.lexists(path):
            raise


class Isolation:
    """The new root of the task in the folder `task`; `runtime` is our own code in it."""

    def __init__(self, task: Path, isolated: Isolated, runtime: Sequence[Bind] = ()) -> None:
        run = Path(isolated.run)
        self._task = task
        self._root = task / WRITTEN
        self._layers = Path(isolated.layers)
        self._storage = isolated.storage
        self._code = isolated.code
        self._runtime = runtime
        # A link on the way would lead out of the new root while it is being made.
        self._run_inside = Path(os.path.realpath(run))
        self._task_inside = self._run_inside / task.relative_to(run)
        self._platform = Path(os.path.realpath(PLATFORM))
        self._user = isolated.user
        self._in_user_namespace = bool(isolated.namespaces & CLONE_NEWUSER)
        self._overlays = 0
        self._has_worked = False
        self._placeholders: list[str] = []
        self._uppers: list[tuple[int, str]] = []
        self.read_only: list[str] = []

    def enter(self) -> None:
        """Build the root and enter it, in new namespaces. Raises OSError with the path in question."""
        if self._in_user_namespace:
            keep_user(*self._user)
        for folder in (self._root, self._layers):
            folder.mkdir(parents=True)
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        self._mounted = sorted(set(map(_with_slash, mount_points())))
        # From here the upper layers' paths are relative to the folder itself, not to what is mounted on it: a
        # layer and its work folder must be in one mount.
        os.chdir(self._root)
        mount(str(self._root), str(self._root), None, MS_BIND)
        self._new = Folder.at(self._root)
        try:
            self._fill()
        finally:
            self._new.close()
        os.chdir(self._root)
        enter_root()
        give_up_tracing()

    def _fill(self) -> None:
        if not self._layer_over_all():
            for path in (self._run_inside, self._platform, *(Path(each.target) for each in self._storage)):
                self._make(path).close()  # while there is no layer yet that it would have to be copied into
            self._each_below(Path("/"))
        for each in self._storage:
            self._bind(each)
        self._machine()
        self._own_folder()
        (self._layers / _MADE).write_text(json.dumps([self._placeholders, self._uppers]))

    def _layer_over_all(self) -> bool:
        """Mount one overlay over all directories; return whether the kernel allows it (for root only)."""
        if self._in_user_namespace:
            return False
        try:
            self._overlay(Path("/"))
        except OSError:
            return False
        self._has_worked = True
        self._new.close()
        self._new = Folder.at(self._root)
        self._layers_on_top(
            [path for path in self._outermost_below(Path("/")) if path.parts[1] not in _MACHINE]
        )
        return True

    def _each_below(self, folder: Path) -> None:
        """Rebuild a folder entry by entry."""
        for entry in os.scandir(folder):
            if folder == Path("/") and entry.name in _MACHINE:
                continue
            if not (entry.is_symlink() or os.access(entry.path, os.F_OK)):
                continue  # mounted by somebody for himself alone, or by a server that is gone
            with _unless_removed(entry.path):
                self._entry(Path(entry.path))

    def _entry(self, path: Path) -> None:
        if path.is_symlink():
            self._inside(path).symlink_to(path.readlink())
            self._placeholders.append(str(path))
        elif path.is_dir():
            self._make(path).close()
            self._layer(path)
        else:
            self._bind(Bind(str(path), str(path), read_only=True))

    def _layer(self, path: Path, *, on_another: bool = False) -> None:
        """Mount an overlay over a folder, and layers of what is mounted below it on top."""
        below = self._outermost_below(path)
        try:
            self._overlay(path, on_another=on_another)
        except OSError:
            if not below and not self._has_worked:  # then it is not this folder's fault
                raise
            if not below or not os.access(path, os.R_OK | os.X_OK):
                if os.access(path, os.X_OK):
                    self.read_only.append(str(path))
                self._bind(Bind(str(path), str(path), read_only=True))
                return
            if any(entry.is_file(follow_symlinks=False) for entry in os.scandir(path)):
                self.read_only.append(f"the files in {path}")
            self._each_below(path)
            return
        self._has_worked = True
        self._layers_on_top(below)

    def _layers_on_top(self, mount_points: list[Path]) -> None:
        """Mount layers of what is mounted inside a folder that has a layer."""
        for mounted in mount_points:
            if not os.access(mounted, os.F_OK):
                continue  # nor can the task get there
            with _unless_removed(mounted):  # such as the root of a container that has ended
                if mounted.is_dir():
                    self._layer(mounted, on_another=True)
                else:
                    self._bind(Bind(str(mounted), str(mounted), read_only=True))

    def _overlay(self, path: Path, *, on_another: bool = False) -> None:
        work = self._new_workdir()
        upper = path.relative_to("/")
        if on_another:  # whose upper layer must not have this one's in it
            upper = work.with_suffix(_UPPER)
            upper.mkdir(mode=0o755)
            with Folder.at(upper) as made:
                _like(made, path)
            self._uppers.append((self._overlays, str(path)))
        self._mount_layer(path, upper, work, str(self._inside(path)))

    def _new_workdir(self) -> Path:
        """Create an empty work directory for an overlay."""
        self._overlays += 1
        work = self._layers / str(self._overlays)
        work.mkdir()
        return work

    def _mount_layer(self, lower: Path, upper: Path, work: Path, target: str) -> None:
        layers = f"lowerdir={_escaped(lower)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
        options = ",userxattr" if self._in_user_namespace else ""
        try:
            mount("overlay", target, "overlay", 0, layers + options)
        finally:
            for each in work.iterdir():  # made by the kernel so that not even its owner can look into it
                each.chmod(stat.S_IRWXU)

    def _outermost_below(self, path: Path) -> list[Path]:
        above, found = _with_slash(path), ["//"]
        for each in self._mounted:  # behind each comes what is below it: all of them end with a slash
            if each != above and each.startswith(above) and not each.startswith(found[-1]):
                found.append(each)
        return list(map(Path, found[1:]))

    def _machine(self) -> None:
        for name in _MACHINE:
            self._make(Path("/", name)).close()
            if name == "proc":
                mount("proc", str(self._inside("/proc")), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
            else:
                mount(f"/{name}", str(self._inside(f"/{name}")), None, MS_BIND | MS_REC)
        make_read_only(str(self._inside("/sys")))
        if not self._in_user_namespace:  # there it is root's alone
            settings = str(self._inside("/proc/sys"))
            mount(settings, settings, None, MS_BIND)
            make_read_only(settings)
        shared = self._inside("/dev/shm")  # noqa: S108 - the system's, not a file of ours
        if shared.is_dir() and not shared.is_symlink():
            mount("tmpfs", str(shared), "tmpfs", 0, "mode=1777")

    def _own_folder(self) -> None:
        """Hide the folder of the run, except for the task's own part of it."""
        inside = self._task_inside
        self._memory(self._run_inside, "mode=755,size=1m")
        self._bind(Bind(str(self._task / FILES), str(inside)))
        if self._code:
            with self._make(inside / WORK) as work:
                self._mount_layer(Path(self._code), self._task / WORK, self._new_workdir(), work.descriptor)
        else:
            self._bind(Bind(str(self._task / WORK), str(inside / WORK)))
        self._bind(Bind(str(self._task / LOGS), str(inside / LOGS), read_only=True))
        self._memory(inside / PRIVATE, f"mode=700,size={_MOST_PRIVATE}")
        self._memory(inside / RUNTIME, "mode=755,size=1m")
        for each in self._runtime:
            self._bind(each)
        with self._make(inside / RUNTIME) as runtime:
            make_read_only(runtime.descriptor)
        with self._make(self._run_inside) as run:
            make_read_only(run.descriptor, below=False)
        with self._make(inside) as own, self._make(self._platform) as platform:
            mount(own.descriptor, platform.descriptor, None, MS_BIND | MS_REC)

    def _memory(self, path: Path, options: str) -> None:
        with self._make(path) as mount_point:
            mount("tmpfs", mount_point.descriptor, "tmpfs", MS_NOSUID | MS_NODEV, options)

    def _bind(self, bind: Bind) -> None:
        target = Path(bind.target)
        if not Path(bind.source).is_dir():
            self._bind_file(bind.source, target)
            return
        with (
            self._make(target) as mount_point,
            Folder.at(Path(bind.source)) as whole,
            whole.folder(bind.below) as source,
        ):
            mount(source.descriptor, mount_point.descriptor, None, MS_BIND | MS_REC)
        if bind.read_only:
            with self._make(target) as mount_point:
                make_read_only(mount_point.descriptor)

    def _bind_file(self, source: str, target: Path) -> None:
        """Bind a file of the machine, read-only; missing folders are created as by `_make`."""
        self._make(target.parent).close()
        inside = self._inside(target)
        if not inside.exists():
            inside.touch()
            self._placeholders.append(str(target))
        mount(source, str(inside), None, MS_BIND)
        make_read_only(str(inside))

    def _make(self, path: Path) -> Folder:
        """Open a folder of the new root; missing ones are created with the permissions of the machine's."""
        with contextlib.suppress(FileNotFoundError):
            return self._new.folder(str(path).lstrip("/"))
        folder = self._new.folder("")
        for known in (*reversed(path.parents[:-1]), path):
            with folder:
                try:
                    inner = folder.folder(known.name)
                except FileNotFoundError:
                    folder.make(known.name)
                    inner = folder.folder(known.name)
                    _like(inner, known)
            folder = inner
        return folder

    def _inside(self, path: str | Path) -> Path:
        return self._root / str(path).lstrip("/")


def _like(folder: Folder, known: Path) -> None:
    """Give a directory the permissions of another one, if that exists."""
    if known.is_dir():
        status = known.stat()
        Path(folder.descriptor).chmod(stat.S_IMODE(status.st_mode))
        if os.geteuid() == 0:
            os.chown(folder.descriptor, status.st_uid, status.st_gid)


def _with_slash(path: Path) -> str:
    return f"{path}/".replace("//", "/")


def _escaped(path: Path) -> str:
    """Escape a path for the options of an overlay, where comma and colon separate."""
    return "".join(f"\\{letter}" if letter in "\\,:" else letter for letter in str(path))
