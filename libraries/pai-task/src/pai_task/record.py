"""`record`: a frozen dataclass that is cheap to create.

`dataclasses` takes as long to import as a bare interpreter takes to start, and it compiles a class's methods
anew each time. What a supervisor or `pai-runtime plan` loads uses this in its place. Type checkers see the
real `dataclass`, `field` and `replace` in this module.

The gain, in CPU time: 24 ms of the import, in a supervisor; and 37 of 173 ms in a `plan`, where the 64
modules outside of this package and the plugin API would use dataclasses.

Instances work with `dataclasses.replace`, `fields` and `asdict`, and with `__post_init__`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Factory:
    """A default that is made for each instance, and whether a field takes part in comparison and ``repr``."""

    def __init__(self, make: Callable[[], Any] | None, *, compare: bool, show: bool) -> None:
        self.make = make
        self.compare = compare
        self.show = show


def _field(
    *,
    default_factory: Callable[[], Any] | None = None,
    compare: bool = True,
    repr: bool = True,  # noqa: A002 - as in dataclasses
) -> Any:
    """Replace `dataclasses.field`."""
    return Factory(default_factory, compare=compare, show=repr)


def _record(*, frozen: bool) -> Callable[[Any], Any]:
    """Return a decorator that makes a class with the fields that its annotations name."""
    if not frozen:
        raise TypeError("a record is frozen")
    return _as_record


def _replace(value: Any, **changes: Any) -> Any:
    """Replace `dataclasses.replace`."""
    # A cached property may be in it, too.
    fields = {name: value.__dict__[name] for name in value.__match_args__}
    return type(value)(**{**fields, **changes})


def _as_record(made: Any) -> Any:
    names = tuple(made.__annotations__)
    setattr(made, "__match_args__", names)  # noqa: B010 - mypy knows the name
    defaults = {name: vars(made)[name] for name in names if name in vars(made)}
    factories = {name: value for name, value in defaults.items() if isinstance(value, Factory)}
    for name in factories:
        delattr(made, name)
    made.__record_names__ = frozenset(names)
    made.__record_defaults__ = defaults
    made.__record_compared__ = [name for name in names if name not in factories or factories[name].compare]
    made.__record_shown__ = [name for name in names if name not in factories or factories[name].show]
    made.__dataclass_fields__ = _DataclassFields()
    for method in _METHODS:
        setattr(made, method.__name__, method)
    return made


def __init__(self: Any, *args: Any, **given: Any) -> None:  # noqa: N807
    made, values = type(self), self.__dict__
    names = made.__match_args__
    values.update(zip(names, args), **given)  # noqa: B905 - the rest is in `given`
    if len(values) < len(args) + len(given) or not made.__record_names__.issuperset(given):
        raise TypeError(f"{made.__name__} was given one of its fields twice, or what is none of {names}")
    if len(values) < len(names):
        for name in names:
            if name not in values:
                values[name] = _default(made, name)
    if hasattr(made, "__post_init__"):
        self.__post_init__()


def _default(made: Any, name: str) -> Any:
    try:
        value = made.__record_defaults__[name]
    except KeyError:
        raise TypeError(f"{made.__name__} needs a value for {name}") from None
    if not isinstance(value, Factory):
        return value
    if value.make is None:
        raise TypeError(f"{made.__name__} needs a value for {name}")
    return value.make()


def __eq__(self: Any, other: Any) -> bool:  # noqa: N807 - `self` is any, too
    if type(other) is not type(self):
        return NotImplemented
    mine, others = vars(self), vars(other)
    compared: list[str] = self.__record_compared__
    return all(mine[name] == others[name] for name in compared)


def __hash__(self: Any) -> int:  # noqa: N807
    return hash(tuple(vars(self)[name] for name in self.__record_compared__))


def __repr__(self: Any) -> str:  # noqa: N807
    fields = ", ".join(f"{name}={vars(self)[name]!r}" for name in self.__record_shown__)
    return f"{type(self).__qualname__}({fields})"


def __setattr__(_self: object, name: str, _value: object) -> None:  # noqa: N807
    raise _frozen(name)


def __delattr__(_self: object, name: str) -> None:  # noqa: N807
    raise _frozen(name)


_METHODS: list[Any] = [__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__]


def _frozen(name: str) -> AttributeError:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - see the top

    return FrozenInstanceError(f"cannot assign to field {name!r}")


class _DataclassFields:
    """A descriptor that makes instances work as dataclasses; it is replaced by the fields when it is read."""

    def __get__(self, _instance: object, owner: Any) -> Any:
        import dataclasses  # noqa: PLC0415 - see the top

        body: dict[str, Any] = {
            "__annotations__": owner.__annotations__,
            "__module__": owner.__module__,
        }
        for name, value in owner.__record_defaults__.items():
            body[name] = value
            if isinstance(value, Factory):
                factory: Any = value.make or dataclasses.MISSING
                body[name] = dataclasses.field(
                    default_factory=factory, compare=value.compare, repr=value.show
                )
        twin: Any = dataclasses.dataclass(frozen=True)(type(owner.__name__, (), body))
        owner.__dataclass_fields__ = twin.__dataclass_fields__
        return owner.__dataclass_fields__


if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field, replace
else:
    record, field, replace = _record, _field, _replace

__all__ = ["field", "record", "replace"]
