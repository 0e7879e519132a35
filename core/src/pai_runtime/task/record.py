"""`record`: a frozen dataclass whose making costs no time worth counting.

`dataclasses` takes as long to import as a bare interpreter takes to start, and it compiles a class's methods
anew each time. What a supervisor loads uses this in its place, and type checkers see the real one::

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from dataclasses import dataclass as record, field
    else:
        from pai_runtime.task.record import field, record

Instances work with `dataclasses.replace`, `fields` and `asdict`, and with `__post_init__`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Class = TypeVar("Class", bound=type)


class _Factory:
    """A default that is made for each instance, and whether it counts when two are compared."""

    def __init__(self, make: "Callable[[], Any]", *, compare: bool, show: bool) -> None:
        self.make = make
        self.compare = compare
        self.show = show


def field(*, default_factory: "Callable[[], Any]", compare: bool = True, repr: bool = True) -> "Any":  # noqa: A002 - as in dataclasses
    """As that of `dataclasses`."""
    return _Factory(default_factory, compare=compare, show=repr)


class _DataclassFields:
    """Makes instances dataclasses for those who ask, and only for them."""

    def __get__(self, _instance: object, owner: type) -> "dict[str, Any]":
        import dataclasses  # noqa: PLC0415 - see above

        names = owner.__annotations__
        body: dict[str, Any] = {"__annotations__": names, "__module__": owner.__module__}
        for name in names:
            default = owner.__dict__.get(name, _factories(owner).get(name, dataclasses.MISSING))
            if isinstance(default, _Factory):
                default = dataclasses.field(
                    default_factory=default.make, compare=default.compare, repr=default.show
                )
            if default is not dataclasses.MISSING:
                body[name] = default
        return dataclasses.dataclass(frozen=True)(type(owner.__name__, (), body)).__dataclass_fields__


def _factories(owner: type) -> "dict[str, _Factory]":
    return owner.__dict__["__factories__"]


def record(*, frozen: bool) -> "Callable[[Class], Class]":
    """A frozen class with the fields that its annotations name."""
    if not frozen:
        raise TypeError("a record is frozen")
    return _as_record


def _as_record(made: "Class") -> "Class":
    names = tuple(made.__dict__["__annotations__"])
    factories = {name: made.__dict__[name] for name in names if isinstance(made.__dict__.get(name), _Factory)}
    for name in factories:
        delattr(made, name)
    defaults = {name: made.__dict__[name] for name in names if name in made.__dict__}
    compared = tuple(name for name in names if name not in factories or factories[name].compare)
    shown = tuple(name for name in names if name not in factories or factories[name].show)
    count, wanted, known = len(names), made.__name__, set(names)
    post_init = made.__dict__.get("__post_init__")

    def __init__(self: "Any", *args: "Any", **given: "Any") -> None:  # noqa: N807
        values = self.__dict__
        if len(args) > count:
            raise TypeError(f"{wanted} takes {count} values, not {len(args)}")
        values.update(zip(names, args))  # noqa: B905 - in Python 3.9 and for fewer
        if given:
            if not known.issuperset(given) or not values.keys().isdisjoint(given):
                raise TypeError(f"{wanted} has no such field, or has it twice: {', '.join(given)}")
            values.update(given)
        if len(values) < count:
            for name in names:
                if name not in values:
                    if name in factories:
                        values[name] = factories[name].make()
                    elif name in defaults:
                        values[name] = defaults[name]
                    else:
                        raise TypeError(f"{wanted} needs a value for {name}")
        if post_init is not None:
            post_init(self)

    def __eq__(self: "Any", other: object) -> bool:  # noqa: N807
        if other.__class__ is not made:
            return NotImplemented
        mine, others = self.__dict__, other.__dict__
        return all(mine[name] == others[name] for name in compared)

    def __hash__(self: "Any") -> int:  # noqa: N807
        return hash(tuple(self.__dict__[name] for name in compared))

    def __repr__(self: "Any") -> str:  # noqa: N807
        return f"{wanted}({', '.join(f'{name}={self.__dict__[name]!r}' for name in shown)})"

    methods = (__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__)
    for method in methods:
        setattr(made, method.__name__, method)
    made.__match_args__ = names
    made.__factories__ = factories
    made.__dataclass_fields__ = _DataclassFields()
    return made


def replace(value: "Any", **changes: "Any") -> "Any":
    """As that of `dataclasses`."""
    fields = {name: vars(value)[name] for name in value.__match_args__}
    return type(value)(**{**fields, **changes})


def __setattr__(self: object, name: str, _value: object) -> None:  # noqa: N807
    raise _frozen(name)


def __delattr__(self: object, name: str) -> None:  # noqa: N807
    raise _frozen(name)


def _frozen(name: str) -> AttributeError:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - see above

    return FrozenInstanceError(f"cannot assign to field {name!r}")
