"""The exception for a program that cannot be started in a task."""


class CannotEnter(Exception):
    """The exception for a program that was not started in a task; `status` stands for its exit status."""

    def __init__(self, why: str, status: int = 2) -> None:
        super().__init__(why)
        self.status = status
