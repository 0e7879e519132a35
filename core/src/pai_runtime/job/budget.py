"""A limit on the size of a job once its references are resolved.

References and prerequisites multiply what a file holds: ten references to ten references to a text, or a
thousand task roles that share a thousand prerequisites. Without a bound, a small file could keep a machine
busy for ever.
"""

from pai_document.problems import InvalidInput, Position, Problem

MAX_VALUES = 500_000
"""Values of a job once all its references and prerequisites are resolved, in all task roles together."""


class Budget:
    """A counter of the values of one job while its references are resolved."""

    def __init__(self) -> None:
        self.values = 0

    def add(self, values: int, position: Position) -> None:
        """Count `values` more that come to be at `position`. Raises `InvalidInput` above `MAX_VALUES`."""
        self.values += values
        if self.values > MAX_VALUES:
            message = f"the job has more than {MAX_VALUES} values after resolving its references"
            raise InvalidInput([Problem("job-too-large", message, position)])
