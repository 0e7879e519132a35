"""What all of these tests have in common."""

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_watched_any_more() -> Iterator[None]:
    """One that is not closed tries again for ever, and what it draws at random disturbs Hypothesis."""
    before = threading.enumerate()
    yield
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith(("watch ", "log ")):
            thread.join(60)
            assert not thread.is_alive(), thread.name
