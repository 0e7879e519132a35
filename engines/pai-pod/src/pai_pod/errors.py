"""Why init fails."""

from pai_task.exit_codes import INIT_FAILED


class InitFailed(Exception):
    """The exception for a failed init container, with lines that say why, and its exit code."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines


class BarrierFailed(Exception):
    """The exception for a failed barrier; `code` is the exit code of the init container."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def missing(what: str, maker: str) -> InitFailed:
    """Return the error that nothing has made what an init plugin needs; `maker` is the name of what does."""
    return InitFailed(INIT_FAILED, f"{what} is missing; list {maker} before this init plugin")


def reason(error: OSError) -> str:
    """Return what an error of the system says of which file."""
    return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror or error}"
