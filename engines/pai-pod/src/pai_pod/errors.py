"""Why init fails."""


class InitFailed(Exception):
    """The exception for a failed init container, with lines that say why, and its exit code."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines


def reason(error: OSError) -> str:
    """Return what an error of the system says of which file."""
    return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror or error}"
