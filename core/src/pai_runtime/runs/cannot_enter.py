"""The exception for a program that cannot be run in a task."""


class CannotEnter(Exception):
    """The program has not been started; `status` is what stands for its exit status."""

    def __init__(self, why: str, status: int = 2) -> None:
        super().__init__(why)
        self.status = status
