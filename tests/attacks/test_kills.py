"""Local runs that are killed at random moments: a few here, more by ``python -m tools.kills runs``."""

from tools.kills import kill_run, kills


def test_what_is_left_of_a_run_that_is_killed_at_any_moment_agrees() -> None:
    assert kills(kill_run, seed=1, count=4, workers=2) == 0
