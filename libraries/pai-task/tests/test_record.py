"""`record` is what `dataclass` would have made."""

import dataclasses
from typing import Any

import pytest

from pai_task import launch, outcome, plan, record, variables
from pai_task.plan import Plan, Service, UseRecord, Variable
from pai_task.record_json import from_json, to_json

RECORDS = [
    kind
    for module in (launch, outcome, plan, variables)
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__ and hasattr(kind, "__match_args__")
]


def _twin(kind: Any) -> Any:
    """The same class, made by `dataclasses`."""
    made = [(each.name, each.type, each) for each in dataclasses.fields(kind)]
    return dataclasses.make_dataclass(kind.__qualname__, made, frozen=True)


@pytest.mark.parametrize("kind", RECORDS)
def test_it_compares_hashes_and_looks_as_a_dataclass_does(kind: Any) -> None:
    values = [f"value {number}" for number, _ in enumerate(dataclasses.fields(kind))]
    given, twin = kind(*values), _twin(kind)
    assert repr(given) == repr(twin(*values))
    assert vars(given) == vars(twin(*values))
    assert hash(given) == hash(twin(*values))
    assert given == kind(**vars(given))
    assert given != twin(*values)
    changed = dataclasses.replace(given, **{kind.__match_args__[0]: "another"})
    assert (changed == given) == (twin(*vars(changed).values()) == twin(*values))
    assert dataclasses.asdict(given) == dataclasses.asdict(twin(*values))
    assert record.replace(given) == given


@pytest.mark.parametrize("kind", RECORDS)
def test_it_has_the_same_defaults(kind: Any) -> None:
    needed = [
        each.name
        for each in dataclasses.fields(kind)
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    ]
    given = kind(**dict.fromkeys(needed, 1))
    assert given == kind(**vars(given))
    assert vars(given).keys() == {each.name for each in dataclasses.fields(kind)}
    if needed:
        with pytest.raises(TypeError):
            kind()


def test_it_is_frozen() -> None:
    variable: Any = Variable("A", "1", "image")
    with pytest.raises(dataclasses.FrozenInstanceError):
        variable.name = "B"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del variable.name


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (("a", "b", "c", "d"), {}),
        (("a", "b"), {}),
        (("a",), {"name": "a", "value": "b", "source": "c"}),
        (("a", "b", "c"), {"more": 1}),
    ],
)
def test_values_that_do_not_fit_are_type_errors(args: tuple[Any, ...], given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Variable(*args, **given)


def test_a_class_attribute_is_its_default() -> None:
    assert (Service.required, launch.LaunchOptions.grace) == (False, 10)


def test_what_its_author_checks_is_checked() -> None:
    @record.record(frozen=True)
    class Checked:
        name: str

        def __post_init__(self) -> None:
            raise ValueError(self.name)

    with pytest.raises(ValueError, match="wrong"):
        Checked("wrong")


@pytest.mark.parametrize(
    ("kind", "document", "place"),
    [
        (Variable, {"name": 1, "value": "", "source": ""}, "name"),
        (Variable, {"name": "A", "value": ""}, "source"),
        (Variable, {"name": "A", "value": "", "source": "", "more": ""}, "more"),
        (Variable, [], "list"),
        (launch.LaunchOptions, {"rotation": {"size": -1}}, "rotation.size"),
        (launch.LaunchOptions, {"variables": {"A": 1}}, "variables.A"),
        (Plan, {"ports": {"ssh": [22, "23"]}}, "ports.ssh[1]"),
        (Plan, {"environment": [{"name": None}]}, "environment[0].name"),
        (Plan, {"services": [{"use": 0, "script": 1}]}, "services[0].script"),
    ],
    ids=str,
)
def test_what_is_wrong_in_its_json_is_named_with_its_place(kind: Any, document: Any, place: str) -> None:
    with pytest.raises(ValueError) as fault:  # noqa: PT011 - it names the place
        from_json(kind, document)
    assert place in str(fault.value)


def test_its_json_has_the_fields_in_their_order_and_comes_back() -> None:
    use = UseRecord("u", "org.example", "pai-x", "1", None, {"p": 1}, "fail", "f:1:1", via=("f:2:1",))
    document = to_json(use)
    assert list(document)[:7] == [
        *("name", "plugin", "distribution", "version"),
        *("digest", "parameters", "failurePolicy"),
    ]
    assert document["via"] == ["f:2:1"]
    assert from_json(UseRecord, document) == use
