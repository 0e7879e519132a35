"""Anonymous files in memory, which pass a script or data to a child process and to nobody else."""

import fcntl
import os

SCRIPT_FD = 3
"""The descriptor of the script for the shell: one digit, since POSIX redirections know no others."""

SCRIPT_END = "pai-runtime-end-of-script"
"""The end mark of a script there: without it the script is incomplete, and is not run."""

_LOWEST_FD = 60


def hand_over_script(script: bytes) -> None:
    """Put a script at `SCRIPT_FD`, for the next process that is started; it gets a copy of its own."""
    fd = os.memfd_create("pai-runtime script", 0)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(script)
    os.lseek(fd, 0, os.SEEK_SET)
    if fd != SCRIPT_FD:
        os.dup2(fd, SCRIPT_FD)
        os.close(fd)


def out_of_the_way(fd: int) -> int:
    """Move an open file to a descriptor number that scripts hardly use themselves, and return it."""
    try:
        higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
    except OSError:  # so many files may not be open
        return fd
    os.close(fd)
    return higher


class ScratchFile:
    """An anonymous file in memory that is passed to a child process by its descriptor."""

    def __init__(self) -> None:
        self.fd = out_of_the_way(os.memfd_create("pai-runtime", 0))

    def write(self, data: bytes) -> None:
        """Replace the content; the next reader begins at the start."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        while data:
            data = data[os.write(self.fd, data) :]
        os.lseek(self.fd, 0, os.SEEK_SET)

    def read(self, most: int) -> bytes:
        """Return the content. Raises `ValueError` if it is larger than `most` bytes."""
        size = os.fstat(self.fd).st_size
        if size > most:
            raise ValueError(f"it left {size} bytes, and at most {most} are read")
        return os.pread(self.fd, size, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)
