"""The init container: it leaves what a pod's task needs on the volume that both containers share.

1. The logs of an earlier execution are set aside, and all else that it has left is removed.
2. The init plugins run, in order, and make the plan of the task.
3. The plan is written, and its init steps run.
4. What the task container takes over is left to it, and at last the launcher and the bundle, which is copied
   meanwhile.

Everything is made anew each time, so all of it can be repeated wherever it was interrupted.
"""

import errno
import fcntl
import os
import stat
import time
import traceback
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from pai_document.printable import printable
from pai_document.problems import InvalidInput, Problems, problem_lines
from pai_pod.bundle_copy import bundle_on_its_way
from pai_pod.directories import BadDirectory, Directories, pod_directories
from pai_pod.errors import InitFailed, reason
from pai_pod.exit_spec import leave_exit_spec
from pai_pod.given_run import given_peers
from pai_pod.handing_over import hand_over_task, left_variables
from pai_pod.init_config import read_init_plugins
from pai_pod.init_log import InitLog
from pai_pod.init_plugins import run_init_plugin
from pai_pod.init_steps import RENDERER
from pai_pod.made import Made
from pai_pod.steps import GivenCommand, LoadedJob, PlannedTask, Pod
from pai_pod.stopping import Stopped, check_stopped, raise_stopped
from pai_pod.user_command import VARIABLE as GIVEN_COMMAND
from pai_pod.volume import keep_from_others, open_to_all, remove_leftovers
from pai_runtime.host.host import Host
from pai_task.exit_codes import INIT_FAILED
from pai_task.folder import Folder
from pai_task.paths import IMAGE_BUNDLE, INIT_SCRIPTS

LOGS: Final = "logs"
"""The directory of logs on the volume, at which the platform mounts a directory of the host."""
BEFORE: Final = "prelog_"
"""Prefix of the names of directories with the logs of earlier executions."""


def run_init(environment: MutableMapping[str, str], host: Callable[[], Host]) -> int:
    """Run the whole init container, and return its exit code.

    `environment` is that of this process; directories that it does not name are added. `host` raises
    `InvalidInput`.
    """
    problems = Problems()
    os.umask(0o022)  # the task's user may be any, and has to find what is left for it
    try:
        raise_stopped()
        directories = pod_directories(environment)
        environment.update(directories.variables())
        with ExitStack() as opened:
            volume = opened.enter_context(Folder.at(directories.volume))
            opened.callback(os.close, _locked(volume))
            logs = opened.enter_context(_made(directories.logs, volume))
            _set_aside(logs)
            log = InitLog(logs, problems)
            code = _logged(log, partial(_init, environment, directories, volume, host, problems, log))
            code = _logged(log, partial(open_to_all, logs)) or code
    except Stopped as stopped:
        return stopped.code
    except (BadDirectory, OSError) as error:
        why = reason(error) if isinstance(error, OSError) else error
        os.write(2, f"pai-runtime: {printable(str(why))}\n".encode())
        return INIT_FAILED
    return code


def _logged(log: InitLog, work: Callable[[], None]) -> int:
    """Run the work, log why it fails, and return its exit code."""
    try:
        try:
            work()
        finally:
            check_stopped()
    except InitFailed as error:
        log.say(*(f"[ERROR] {line}" for line in error.lines))
        return error.code
    except InvalidInput as error:
        log.say(*problem_lines(error.problems))
    except Stopped as stopped:
        log.say(f"[ERROR] stopped by signal {stopped.number}")
        return stopped.code
    except OSError as error:
        log.say(f"[ERROR] cannot continue: {reason(error)}")
    except Exception:  # noqa: BLE001 - a fault of ours must be in the log too
        log.say("[ERROR] internal error of the runtime", *traceback.format_exc().splitlines())
    else:
        return 0
    return INIT_FAILED


def _init(
    environment: MutableMapping[str, str],
    directories: Directories,
    volume: Folder,
    host: Callable[[], Host],
    problems: Problems,
    log: InitLog,
) -> None:
    keep_from_others(volume)
    remove_leftovers(volume, [LOGS, *_on(volume, directories.logs)])
    with ExitStack() as opened:
        bundle = Path(environment.get("PAI_RUNTIME_BUNDLE") or IMAGE_BUNDLE)
        place_bundle = opened.enter_context(bundle_on_its_way(bundle, directories.volume))
        runtime = opened.enter_context(_made(directories.runtime, volume))
        remove_leftovers(runtime)
        init = opened.enter_context(_made(directories.init, volume))
        _copy_scripts(directories.init)
        try:
            leave_exit_spec(environment, directories, runtime)
        except InvalidInput as error:  # jobs run without it
            log.say(*(f"[WARNING] {line}" for line in problem_lines(error.problems)))
        peers = given_peers(directories)
        known = host()
        plugins = read_init_plugins(environment, directories, known, has_peers=peers is not None)
        is_given = bool(environment.get(GIVEN_COMMAND)) and any(each.name == RENDERER for each in plugins)
        pod = Pod(environment, directories, init, runtime, known, log, problems, peers, is_given)
        made = Made()
        for plugin in plugins:
            made = run_init_plugin(plugin, pod, made)
        loaded, task, given = made.of(LoadedJob), made.of(PlannedTask), made.of(GivenCommand)
        if loaded is None or task is None:
            names = ", ".join(plugin.name for plugin in plugins) or "none"
            raise InitFailed(
                INIT_FAILED,
                f"the task has no plan: expected runtimePlugins in the list of init plugins, found {names}",
            )
        command = given.command if given else None
        plan = task.draft.plan(command, left_variables(pod))
        hand_over_task(pod, plan, loaded.secrets, made.platform)
        place_bundle()
        log.say("init has succeeded: the task can start")


def _locked(volume: Folder) -> int:
    """Return a descriptor that, while open, keeps out other init containers, which would empty the volume."""
    fd = os.open(volume.descriptor, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise OSError(errno.EBUSY, "another init container is at work there", volume.where) from None
    return fd


def _on(volume: Folder, path: Path) -> list[str]:
    """Return the path relative to the volume, as a list; empty if it is not on it."""
    return [str(path.relative_to(volume.path))] if path.is_relative_to(volume.path) else []


def _made(path: Path, volume: Folder) -> Folder:
    """Open a directory, created if missing; on the volume, links and files in its way are removed."""
    if not path.is_relative_to(volume.path):
        path.mkdir(parents=True, exist_ok=True)
        return Folder.at(path)
    folder = volume.folder("")
    for part in path.relative_to(volume.path).parts:
        with folder:
            if folder.exists(part) and not stat.S_ISDIR(folder.stat(part).st_mode):
                folder.remove(part)
            folder = folder.folder(part, make=True)
    return folder


def _set_aside(logs: Folder) -> None:
    """Move the logs of an earlier execution into a directory of their own."""
    former = [name for name in logs.names() if not name.startswith(BEFORE)]
    if not former:
        return
    name = wanted = BEFORE + time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 1
    while logs.exists(name):
        number += 1
        name = f"{wanted}-{number}"
    with logs.folder(name, make=True) as before:
        for each in former:
            try:
                logs.move(each, before, each)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise  # else something is mounted there, and stays


def _copy_scripts(folder: Path) -> None:
    for scripts in map(Path, INIT_SCRIPTS):
        if scripts.is_dir():
            import shutil  # noqa: PLC0415 - most images have none

            shutil.copytree(scripts, folder, dirs_exist_ok=True)
