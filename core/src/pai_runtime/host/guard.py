"""Objects of plugins, such as an engine: an error of one of their methods is blamed on the plugin.

So is a wrong type of what a method returns, and all that it returns is guarded in turn.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from pai_runtime.host.blame import Blamed, PluginError, blamed
from pai_task.record import record

Check = Callable[["Guard", Any], Any]
"""A function that returns a value, guarded if it needs to be; it raises TypeError for a wrong one."""


@record(frozen=True)
class Contract:
    """What an object of a plugin has to be: `kind`, with the members that the host uses.

    The exceptions `passing` are those that its methods may raise, and that say themselves what is wrong.
    """

    kind: type
    members: Mapping[str, Check]
    passing: tuple[type[Exception], ...]


@record(frozen=True)
class Guard:
    """A guard of the objects of one plugin; `raised` makes the exception that callers of them expect."""

    plugin: Blamed
    raised: Callable[[PluginError], Exception]

    def guarded(self, value: Any, contract: Contract) -> Any:
        """Return an object that behaves as `value` does. Raises TypeError if it is of another kind."""
        if isinstance(value, _Guarded) or not isinstance(value, contract.kind):
            raise TypeError(f"{_shown(value)} is not of the type {contract.kind.__name__}")
        return _Guarded(self, value, contract)


class _Guarded:
    """The guarded object; what is called once is an attribute of its own from then on."""

    def __init__(self, guard: Guard, value: Any, contract: Contract) -> None:
        self.__guard = guard
        self.__value = value
        self.__contract = contract

    def __getattr__(self, name: str) -> Any:
        check = self.__contract.members.get(name)
        if check is None:
            raise AttributeError(name)
        found = self.__tried(name, lambda: getattr(self.__value, name))
        if not callable(found):
            return self.__tried(name, lambda: check(self.__guard, found))

        def call(*args: Any, **options: Any) -> Any:
            return self.__tried(name, lambda: check(self.__guard, found(*args, **options)))

        self.__dict__[name] = call
        return call

    def __tried(self, name: str, work: Callable[[], Any]) -> Any:
        guard, contract = self.__guard, self.__contract
        try:
            with blamed(guard.plugin, f"{contract.kind.__name__}.{name}", *contract.passing):
                return work()
        except PluginError as error:
            raise guard.raised(error) from error


def of_type(*types: Any) -> Check:
    """Return a check for a value of one of these types; None is the type of None."""
    known = tuple(type(None) if each is None else each for each in types)

    def check(_guard: Guard, value: Any) -> Any:
        if isinstance(value, known):
            return value
        names = " or ".join("None" if each is None else each.__name__ for each in types)
        raise TypeError(f"{_shown(value)} is not of the type {names}")

    return check


def each_of(check: Check, name: str, passing: tuple[type[Exception], ...]) -> Check:
    """Return a check for an iterable: each value is checked, and each error blamed, when it comes."""

    def checked(guard: Guard, value: Any) -> Any:
        return _each(
            guard, iter(of_type(Iterable)(guard, value)), partial(_next, guard, check, name, passing)
        )

    return checked


_END: Final = object()


def _each(guard: Guard, values: Iterator[Any], following: Callable[[Iterator[Any]], Any]) -> Iterator[Any]:
    try:
        while (value := following(values)) is not _END:
            yield value
    except PluginError as error:
        raise guard.raised(error) from error
    finally:
        close = getattr(values, "close", None)  # of a generator, which may have a connection
        if close is not None:
            close()


def _next(
    guard: Guard, check: Check, name: str, passing: tuple[type[Exception], ...], values: Iterator[Any]
) -> Any:
    with blamed(guard.plugin, name, *passing):
        value = next(values, _END)
        return value if value is _END else check(guard, value)


def anything(_guard: Guard, value: Any) -> Any:
    """Check nothing."""
    return value


def _shown(value: Any) -> str:
    return "None" if value is None else f"a value of the type {type(value).__name__}"
