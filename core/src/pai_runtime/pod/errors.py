"""Why init fails."""


class InitFailed(Exception):
    """The exception for a failed init container, with lines that say why, and its exit code."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines
