"""A test with a table of cases that need no fixture is one item, which names each case that fails.

An item costs more than such a case: every process that runs tests collects it, and reports it three times.
"""

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

_OF_ALL = frozenset(
    {
        "_hidden_of_its_own",
        "_nothing_stays_refused",
        "_own_cache",
        # What these use.
        "monkeypatch",
        "request",
        "tmp_path_factory",
    }
)
"""The fixtures that every test has (`tests.settings`)."""


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    made = yield
    if not (isinstance(made, list) and len(made) > 1 and all(map(_is_a_case, made))):
        return made
    alike: dict[tuple[str, ...], list[Any]] = {}
    for case in made:
        alike.setdefault(_needs(case), []).append(case)
    return [_table(collector, needs, cases) for needs, cases in alike.items()]


def _is_a_case(item: Any) -> bool:
    """Whether nothing but its values and needs tells it from the other cases of its test."""
    if not (isinstance(item, pytest.Function) and hasattr(item, "callspec")):
        return False
    # The values of a fixture are there, too.
    values = {name for mark in item.iter_markers("parametrize") for name in _names(*mark.args, **mark.kwargs)}
    return (
        values >= inspect.signature(item.obj).parameters.keys()
        and values >= set(item.fixturenames) - _OF_ALL
        and {mark.name for mark in item.callspec.marks} <= {"needs"}
        and not is_hypothesis_test(item.obj)
    )


def _names(names: str | Sequence[str], _: object, *, indirect: object = False, **__: object) -> Iterable[str]:
    if indirect:
        return ()
    return map(str.strip, names.split(",")) if isinstance(names, str) else names


def _needs(item: Any) -> tuple[str, ...]:
    return tuple(need for mark in item.callspec.marks for need in mark.args)


def _table(collector: pytest.Collector, needs: Sequence[str], cases: Sequence[Any]) -> pytest.Item:
    first = cases[0]
    name = first.originalname
    test = _all_cases(first.obj, [(case.callspec.id, case.callspec.params) for case in cases])
    test.__name__, test.__doc__ = name, first.obj.__doc__
    marks = [mark for mark in getattr(first.obj, "pytestmark", ()) if mark.name != "parametrize"]
    test.pytestmark = [*marks, *first.callspec.marks]  # type: ignore[attr-defined] # where pytest looks
    if needs:
        name = f"{name}[{', '.join(needs)}]"
    item: pytest.Item = pytest.Function.from_parent(collector, name=name, callobj=test)
    return item


def _all_cases(
    test: Callable[..., None], cases: Sequence[tuple[str, Mapping[str, Any]]]
) -> Callable[[pytest.Subtests], None]:
    def run(subtests: pytest.Subtests) -> None:
        for name, values in cases:
            try:
                test(**values)
            except (Exception, pytest.fail.Exception):
                with subtests.test(name):
                    raise

    return run
