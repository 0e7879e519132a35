"""The copy of a job's code in a run, so that later edits change no task and no further attempt."""

import errno
import os
import stat

from pai_runtime.engines.code import Code, CodeEntry
from pai_task.folder import Folder

COPY = ".code"
"""The name of the copy in the folder of the run; no role has such a name."""

_UNSUPPORTED = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def copy_code(code: Code, to: Folder) -> None:
    """Copy the code into an empty folder, sharing blocks where the file system can.

    The folder gets the mode of the code's folder. Links are copied as they are; what is neither file nor
    folder is left out. The copy is owned and writable by the current user. Raises OSError.
    """
    os.chmod(".", _mode(code.folder.stat()), dir_fd=to.fd)
    for entry in code.entries(_fail):
        try:
            _copy(entry, to)
        except OSError as error:
            error.filename, error.filename2 = str(code.folder / entry.path), None
            raise


def _fail(error: OSError) -> None:
    raise error


def _copy(entry: CodeEntry, to: Folder) -> None:
    mode = entry.status.st_mode
    if stat.S_ISDIR(mode):
        os.mkdir(entry.path, dir_fd=to.fd)
        os.chmod(entry.path, _mode(entry.status), dir_fd=to.fd)
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(entry.name, dir_fd=entry.holder.fd), entry.path, dir_fd=to.fd)
    elif stat.S_ISREG(mode):
        with (
            os.fdopen(entry.holder.open(entry.name), "rb", buffering=0) as source,
            os.fdopen(_new_file(entry.path, to), "wb", buffering=0) as target,
        ):
            _copy_content(source.fileno(), target.fileno())


def _mode(folder: os.stat_result) -> int:
    return folder.st_mode & 0o777 | stat.S_IRWXU


def _new_file(path: str, to: Folder) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600, dir_fd=to.fd)


def _copy_content(source: int, target: int) -> None:
    status = os.fstat(source)
    left = status.st_size  # not until its end: it may be a log that grows
    while left > 0 and (copied := _copy_some(source, target, left)):
        left -= copied
    os.fchmod(target, status.st_mode & 0o777 | stat.S_IRUSR)
    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))  # build tools compare it


def _copy_some(source: int, target: int, most: int) -> int:
    try:
        return os.copy_file_range(source, target, most)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return os.sendfile(target, source, None, most)
