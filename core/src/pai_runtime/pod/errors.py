"""Why init fails."""


class InitFailed(Exception):
    """Why init failed, line by line, and the exit code of the init container that says so."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines
