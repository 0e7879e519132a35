"""Leaving tests out of a run before they begin."""

from collections.abc import Callable

import pytest


def keep(config: pytest.Config, items: list[pytest.Item], is_wanted: Callable[[pytest.Item], bool]) -> None:
    """Deselect the tests that are not wanted."""
    wanted = [is_wanted(item) for item in items]
    config.hook.pytest_deselected(
        items=[item for item, is_left in zip(items, wanted, strict=True) if not is_left]
    )
    items[:] = [item for item, is_left in zip(items, wanted, strict=True) if is_left]
