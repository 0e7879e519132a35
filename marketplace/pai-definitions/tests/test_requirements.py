"""What definitions require of one another: their order, circles, bounds, storages, and faults in them."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_definitions.job_library import JobLibrary
from pai_definitions.rendering import rendered
from pai_document.problems import Position
from pai_document.value import Value
from pai_runtime.definitions import Definition, Given
from pai_runtime.job import expansion
from pai_task.plan import Plan
from tests.definition_harness import MemoryLibrary, loaded, plan, problems
from tests.support import callback, job


def definition(name: str, *require: str, **fields: Any) -> str:
    """A definition that says its name; in flow style, so that `fields` may be anything that prints so."""
    more = "".join(f"{field}: {value}\n" for field, value in fields.items())
    return (
        f"name: {name}\nrequire: [{', '.join(require)}]\n"
        f"callbacks:\n  - event: taskStarts\n    commands: [echo {name}]\n{more}"
    )


def library(require: Mapping[str, str], **fields: Any) -> MemoryLibrary:
    """Definitions of these names, with what each requires."""
    return MemoryLibrary(
        {f"{name}.yaml": definition(name, *required.split(), **fields) for name, required in require.items()}
    )


def requiring(*names: str, **fields: Any) -> dict[str, Any]:
    return job(worker={"prerequisites": [f"marketplace://name/{name}" for name in names]}, **fields)


def callbacks(name: str) -> dict[str, Any]:
    return {"callbacks": [callback("taskStarts", f"echo {name}")]}


def order(made: Plan) -> str:
    return " ".join(str(step.script).strip().removeprefix("echo ") for step in made.steps_of("taskStarts"))


@pytest.mark.process
@pytest.mark.parametrize(
    ("require", "named", "expected"),
    [
        ({"a": "", "b": "a"}, "b", "a b"),
        ({"a": "b c", "b": "d", "c": "d", "d": ""}, "a", "d b c a"),
        ({"a": "b", "b": "c", "c": ""}, "c a", "c b a"),
        ({"a": "", "b": "", "c": "a", "d": "a b"}, "d c", "a b d c"),
        ({"a": "b b", "b": ""}, "a a", "b a"),
    ],
)
def test_definitions_start_once_each_after_what_they_require(
    tmp_path: Path, require: dict[str, str], named: str, expected: str
) -> None:
    assert order(plan(tmp_path, requiring(*named.split()), library(require))) == expected


@given(st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=1, max_size=8), st.data())
@settings(max_examples=30)
def test_definitions_start_in_the_order_in_which_prerequisites_of_the_job_would(
    graph: list[set[int]], data: st.DataObject
) -> None:
    require = {
        f"n{number}": [f"n{other}" for other in sorted(others) if other < number]
        for number, others in enumerate(graph)
    }
    named = data.draw(st.lists(st.sampled_from(sorted(require)), max_size=5))
    own = [{**callbacks(name), "name": name, "require": others} for name, others in require.items()]
    files = library({name: " ".join(others) for name, others in require.items()})
    with TemporaryDirectory() as folder:
        within = loaded(Path(folder), job(worker={"prerequisites": named}, prerequisites=own), {})
        outside = loaded(Path(folder), requiring(*named), files)
    orders = [[use.name for use in each.uses["worker"].uses] for each in (within, outside)]
    assert orders[0] == orders[1]


@pytest.mark.process
def test_a_plain_name_in_a_definition_is_one_of_its_file_before_any_other(tmp_path: Path) -> None:
    two = f"- {definition('outer', 'inner')}- {definition('inner')}".replace("\n", "\n  ").replace(
        "  - n", "- n"
    )
    others = {"inner.yaml": definition("inner").replace("echo inner", "echo elsewhere")}
    assert order(plan(tmp_path, requiring("outer"), {"two.yaml": two, **others})) == "inner outer"


@pytest.mark.process
def test_a_plain_name_in_a_definition_is_never_a_prerequisite_of_the_job(tmp_path: Path) -> None:
    own = {"name": "inner", **callbacks("own")}
    document = requiring("outer", prerequisites=[own])
    document["taskRoles"]["worker"]["prerequisites"].append("inner")
    files = {"outer.yaml": definition("outer", "inner")}
    assert [each.code for each in problems(tmp_path, document, files)] == ["no-such-definition"]
    files["inner.yaml"] = definition("inner")
    assert order(plan(tmp_path, document, files)) == "inner outer own"


@pytest.mark.parametrize(
    ("require", "circle"),
    [
        ({"a": "a"}, "a → a"),
        ({"a": "b", "b": "a"}, "a → b → a"),
        ({"a": "b", "b": "c", "c": "b"}, "b → c → b"),
    ],
)
def test_a_circle_is_named_with_the_way_that_leads_into_it(
    tmp_path: Path, require: dict[str, str], circle: str
) -> None:
    (found,) = problems(tmp_path, requiring("a"), library(require))
    assert (found.code, found.found) == ("circle", circle)
    assert found.position
    assert found.position.file == f"{circle[0]}.yaml"
    assert found.position.way


def test_a_definition_that_requires_itself_with_another_value_each_time_ends(tmp_path: Path) -> None:
    endless = """\
name: endless
require:
  - name: endless
    template_variables: {text: '{{ text }}x'}
template_variables: [text]
"""
    document = job(
        worker={
            "prerequisites": [{"name": "marketplace://name/endless", "template_variables": {"text": "x"}}]
        }
    )
    (found,) = problems(tmp_path, document, {"endless.yaml": endless})
    assert found.code == "too-deep"
    assert found.position
    assert len(found.position.way) == expansion.MOST_DEEP


@pytest.mark.process
def test_the_shortest_way_counts(tmp_path: Path) -> None:
    last = expansion.MOST_DEEP + 10
    chain = library({f"d{number}": f"d{number + 1}" for number in range(last)} | {f"d{last}": ""})
    assert {each.code for each in problems(tmp_path, requiring("d0"), chain)} == {"too-deep"}
    made = plan(tmp_path, requiring("d0", f"d{last // 2}"), chain)
    assert order(made).split() == [f"d{number}" for number in range(last, -1, -1)]
    assert max(len(use.via) for use in made.uses) <= expansion.MOST_DEEP


@pytest.mark.parametrize("bound", ["MOST_DEFINITIONS", "MAX_VALUES"])
def test_a_few_definitions_cannot_become_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    if bound == "MOST_DEFINITIONS":
        monkeypatch.setattr(expansion, bound, 100)
    else:
        monkeypatch.setattr("pai_runtime.job.budget.MAX_VALUES", 5000)
    tenfold = "name: tenfold\nrequire:\n" + "".join(
        f"  - {{name: tenfold, template_variables: {{text: '{{{{ text }}}}{number}'}}}}\n"
        for number in range(10)
    )
    files = MemoryLibrary({"tenfold.yaml": f"{tenfold}template_variables: [text]\n"})
    document = job(
        worker={
            "prerequisites": [{"name": "marketplace://name/tenfold", "template_variables": {"text": "x"}}]
        }
    )
    found = [each for each in problems(tmp_path, document, files) if each.severity == "error"]
    assert [each.code for each in found] == ["job-too-large"]
    assert len(files.asked) <= 200


@pytest.mark.process
def test_the_work_is_linear_in_the_number_of_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 200
    made: list[str] = []

    def counted(definition: Definition, variables: Mapping[str, Given], required_by: Position) -> Value:
        made.append(definition.name)
        return rendered(definition, variables, required_by)

    monkeypatch.setattr(JobLibrary, "rendered", staticmethod(counted))
    names = [f"d{number}" for number in range(many)]
    files = library({**dict(pairwise(names)), names[-1]: ""})
    assert problems(tmp_path, requiring(*names), files) == ()
    assert (len(files.asked), len(made)) == (2 * many - 1, many)


# Faults


def test_all_that_is_wrong_is_reported_at_once_each_where_it_is_written(tmp_path: Path) -> None:
    files = {
        "good.yaml": definition("good", "missing", "syntax", "wrong"),
        "syntax.yaml": "name: syntax\n\tcallbacks: []\n",
        "wrong.yaml": "name: wrong\nplugin: [x]\nfailurePolicy: never\n",
        "variable.yaml": "name: variable\nuri: '{{ needed }}'\ntemplate_variables: [needed]\n",
        "plugin.yaml": "name: plugin\nplugin: cmd\nplugin_params:\n  callbacks:\n    - event: never\n",
        "misspelt.yaml": "name: misspelt\ncallback: []\n",
    }
    document = requiring("good", "variable", "plugin", "misspelt", "nothing")
    found = problems(tmp_path, document, files)
    where = {(each.position.file.rpartition("/")[2], each.position.line) for each in found if each.position}
    assert {
        ("good.yaml", 2),
        ("syntax.yaml", 2),
        ("wrong.yaml", 2),
        ("wrong.yaml", 3),
        ("misspelt.yaml", 2),
        ("plugin.yaml", 5),
    } <= where
    assert {"missing-variable", "no-such-definition"} <= {each.code for each in found}
    for each in found:
        assert each.position
        is_in_job = each.position.file.endswith("job.yaml")
        assert bool(each.position.way) != is_in_job


def test_a_fault_is_reported_with_the_first_way_only(tmp_path: Path) -> None:
    files = {
        "wrong.yaml": "name: wrong\nfailurePolicy: never\n",
        "a.yaml": definition("a", "wrong"),
        "b.yaml": definition("b", "wrong"),
        "template.yaml": "name: template\nuri: '{{ x | int + 1 }}'\ntemplate_variables: [x]\n",
        "late.yaml": "name: late\nrequire: [missing]\nplugin: cmd\nplugin_params:\n  callbacks: [1]\n"
        "  x: {{ x }}\ntemplate_variables: [x]\n",
    }
    document = requiring("a", "b")
    for x in ([1], [2]):
        for name in ("template", "late"):
            entry = {"name": f"marketplace://name/{name}", "template_variables": {"x": x}}
            document["taskRoles"]["worker"]["prerequisites"].append(entry)
    found = problems(tmp_path, document, files)
    codes = ["no-such-definition", "wrong-template", "wrong-type", "wrong-value"]
    assert sorted(each.code for each in found) == codes
    position = next(each.position for each in found if each.code == "wrong-value")
    assert position
    assert position.way[0] == "a.yaml:2:11"


def test_a_near_miss_is_suggested(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, requiring("imagnet"), library({"imagenet": ""}))
    assert found.suggestion == "imagenet"


# Storages


STORAGE = "[{name: datasets, mountPath: /mnt/datasets}]"


@pytest.mark.process
def test_the_same_storage_is_mounted_once(tmp_path: Path) -> None:
    files = library({"a": "", "b": "a"}, requireStorages=STORAGE)
    document = requiring("b", extras={"storages": [{"name": "datasets", "mountPath": "/mnt/datasets"}]})
    made = plan(tmp_path, document, files)
    assert [(each.mount.path, each.mount.source) for each in made.mounts] == [("/mnt/datasets", "datasets")]
    assert [use.name for use in made.uses].count("datasets") == 1


@pytest.mark.process
@pytest.mark.parametrize(
    "other",
    [
        {"name": "datasets", "mountPath": "/mnt/datasets", "readOnly": True},
        {"name": "datasets", "mountPath": "/mnt/datasets", "share": False},
        {"name": "another", "mountPath": "/mnt/datasets"},
    ],
)
def test_storages_that_differ_at_one_path_are_an_error_that_shows_both_places(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    files = library({"a": ""}, requireStorages=STORAGE)
    (found,) = problems(tmp_path, requiring("a", extras={"storages": [other]}), files)
    assert found.code == "mount-conflict"
    assert found.position
    assert (found.position.file, len(found.position.way)) == ("a.yaml", 1)
    assert f"{tmp_path / 'job.yaml'}:" in found.message


@pytest.mark.process
def test_a_storage_that_is_missing_here_is_named_with_the_way_to_it(tmp_path: Path) -> None:
    made = plan(tmp_path, requiring("b"), library({"a": "", "b": "a"}, requireStorages=STORAGE))
    (mount,) = made.mounts
    label = made.uses[mount.use].label
    assert "a.yaml:" in label
    assert "b.yaml:2:11" in label
    assert f"{tmp_path / 'job.yaml'}:" in label
