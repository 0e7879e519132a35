"""The guess at the line that says why, for failures that no rule explains."""

import pytest

from pai_task.likely_line import likely_line


@pytest.mark.parametrize(
    ("likely", "log"),
    [
        (None, []),
        (None, ["epoch 1 loss 0.3", "done", ""]),
        (None, ["epoch 1 error 0.3 loss 0.2", "WARNING: no error handler", "0 errors found"]),
        (1, ["step 1", "simulator: cannot reach the licence server", "stopped"]),
        (
            1,
            ["reading", "config.f90: Error: no value for 'dt'", "the run failed", "exited with error code 2"],
        ),
        (1, ["the cache is missing", "[fatal] grid has no cells", "[fatal] rank 3 stops"]),
        (0, ["solver exited with an error", "epoch 1"]),
        (2, ['  File "a.py", line 1, in error', "    raise Error(x)", "mylib.Odd: invalid grid"]),
    ],
)
def test_the_first_line_that_says_most_of_an_error_is_guessed(likely: int | None, log: list[str]) -> None:
    assert likely_line(log) == likely
