"""Topological order of dependencies."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)


def dependencies_first(
    roots: Iterable[_T], require: Callable[[_T], Sequence[_T]]
) -> tuple[list[_T], list[_T] | None]:
    """Return `roots` and all that they require in topological order, and the first cycle or None.

    Each item comes once, after what it requires, otherwise in the order given. A cycle starts and ends with
    the same item (``[a, b, a]``); its last link is ignored for the order. Not recursive: input decides the
    length of a chain.
    """
    order: dict[_T, None] = {}
    cycle: list[_T] | None = None
    open_: dict[_T, Iterator[_T]] = {}
    for root in roots:
        following: _T | None = root
        while following is not None or open_:
            if following is None:
                name = next(reversed(open_))
                following = next(open_[name], None)
                if following is None:
                    open_.popitem()  # `del` would leave a hole, over which `reversed` walks each time
                    order[name] = None
                continue
            if following in open_ and cycle is None:
                names = list(open_)
                cycle = [*names[names.index(following) :], following]
            if following not in open_ and following not in order:
                open_[following] = iter(require(following))
            following = None
    return list(order), cycle
