"""Anonymous files in memory: they pass a script or data to a child process and to nobody else."""

import fcntl
import os

SCRIPT_FD = 3
"""Where the shell finds the script: one digit, because POSIX shells know no others in a redirection."""

SCRIPT_END = "pai-runtime-end-of-script"
"""Follows a script there: what lacks it is not all of the script, and is not run."""

_LOWEST_FD = 60


def hand_over_script(script: bytes) -> None:
    """Put a script where the next process that is started finds it; it has a copy of its own there."""
    fd = os.memfd_create("pai-runtime script", 0)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(script)
    os.lseek(fd, 0, os.SEEK_SET)
    if fd != SCRIPT_FD:
        os.dup2(fd, SCRIPT_FD)
        os.close(fd)


def out_of_the_way(fd: int) -> int:
    """The same open file by a number that scripts hardly use themselves."""
    try:
        higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
    except OSError:  # so many files may not be open
        return fd
    os.close(fd)
    return higher


class ScratchFile:
    """A file without a name, in memory, that a child process can be handed by its descriptor."""

    def __init__(self) -> None:
        self.fd = out_of_the_way(os.memfd_create("pai-runtime", 0))

    def write(self, data: bytes) -> None:
        """Replace its content; the next reader begins at the start."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        while data:
            data = data[os.write(self.fd, data) :]
        os.lseek(self.fd, 0, os.SEEK_SET)

    def read(self, most: int) -> bytes:
        """Its content; raises `ValueError` for one of more than `most` bytes."""
        size = os.fstat(self.fd).st_size
        if size > most:
            raise ValueError(f"it left {size} bytes, and at most {most} are read")
        return os.pread(self.fd, size, 0)

    def close(self) -> None:
        """Let go of it."""
        os.close(self.fd)
