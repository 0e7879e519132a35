"""Removal of files that a task created, of any kind and depth."""

import errno
import os
import stat

WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags that open a folder for looking up names below it."""


def remove(holder: int, name: str) -> None:
    """Remove a tree of any depth; nested folders are moved up, so that few are open at a time."""
    try:
        os.unlink(name, dir_fd=holder)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        pass
    else:
        return
    if is_gone(holder, name):  # raises for a mount, which is somebody else's, whatever is in it
        return
    top = listable(holder, name)
    try:
        number = 0
        while found := os.listdir(top):
            for inner in found:
                number = _empty(top, inner, number)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=holder)


def is_gone(holder: int, name: str) -> bool:
    """Remove a folder if it is empty; return whether it is gone."""
    try:
        os.rmdir(name, dir_fd=holder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def listable(holder: int, name: str) -> int:
    """Open a folder to be emptied, whatever its permissions, and return its descriptor."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, WALK, dir_fd=holder)
    try:
        if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IRWXU)
        return os.open(".", flags, dir_fd=fd)
    finally:
        os.close(fd)


def _empty(top: int, name: str, number: int) -> int:
    """Remove an entry directly in `top`; folders inside it are moved up to `top` under new names."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return number
    if is_gone(top, name):
        return number
    inner = listable(top, name)
    try:
        for each in os.listdir(inner):
            if stat.S_ISDIR(os.stat(each, dir_fd=inner, follow_symlinks=False).st_mode):
                while _exists(top, f".{number}"):
                    number += 1
                os.close(listable(inner, each))  # what cannot be written cannot be moved
                os.rename(each, f".{number}", src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(each, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
    return number


def _exists(holder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=holder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
