"""The plugin's shell scripts, for any image."""

import shlex
from collections.abc import Mapping

from pai_runtime.plugin import port_is_taken

_IS_THERE = 'import importlib.util as u, sys; sys.exit(u.find_spec("tensorboard.main") is None)'

_MISSING = (
    "TensorBoard is not installed: add it to the image (pip install tensorboard), or pai-tensorboard[server] "
    "to pai-runtime for runs on one machine"
)


def make_folder(path: str) -> str:
    """Return a script that creates a folder for event files; `path` is a quoted word of a shell."""
    return f"mkdir -p -- {path} || echo TensorBoard cannot show {path} >&2\n"


def make_linked_folders(paths: Mapping[str, str], links: str) -> str:
    """Return a script that creates folders for event files, and links to them by name in the folder `links`.

    Thus one TensorBoard shows several folders under names, in every version of it.
    """
    lines = [f"cd {shlex.quote(links)} || exit"]
    for name, path in paths.items():
        lines += [
            f"case {path} in /*) logdir={path} ;; *) logdir=$PAI_WORK_DIR/{path} ;; esac",
            make_folder('"$logdir"') + f'ln -sfn -- "$logdir" {shlex.quote(name)}',
        ]
    return f"mkdir -p -- {shlex.quote(links)}\n" + "\n".join(lines) + "\n"


def serve(logdir: str, port: int, folder: str) -> str:
    """Return a script that runs TensorBoard for `logdir` (a shell word): the task's, else the runtime's.

    `folder` is for its own files, which it would otherwise share with all users of the machine in ``/tmp``; a
    mark in it says that it is starting. In a local run, only this machine can reach it.
    """
    mark = _mark(folder)
    return f"""\
rm -f -- {mark}
if {port_is_taken(port)}; then
  echo 'port {port} is taken by another process; the parameter port can name another one' >&2
  exit 1
fi
is_there='{_IS_THERE}'
if python3 -c "$is_there" 2>/dev/null; then
  set -- python3 -m tensorboard.main
elif python -c "$is_there" 2>/dev/null; then
  set -- python -m tensorboard.main
elif tensorboard --version >/dev/null 2>&1; then
  set -- tensorboard
elif "$PAI_RUNTIME_PYTHON" -I -c "$is_there" 2>/dev/null; then
  set -- "$PAI_RUNTIME_PYTHON" -I -m tensorboard.main
else
  echo '{_MISSING}' >&2
  exit 0
fi
case $PAI_CURRENT_CONTAINER_IP in 127.*) host=$PAI_CURRENT_CONTAINER_IP ;; *) host=0.0.0.0 ;; esac
export TMPDIR={shlex.quote(folder)}
: > {mark}
exec "$@" --logdir={logdir} --port={port} --host="$host"
"""


def probe(port: int, folder: str) -> str:
    """Return a script that succeeds once TensorBoard listens, and nothing else did before it was started."""
    return f"[ -e {_mark(folder)} ] && {port_is_taken(port)}"


def _mark(folder: str) -> str:
    return shlex.quote(f"{folder}/started")
