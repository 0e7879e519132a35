"""Configuration in a variable of a Pod, also where its YAML has folded the lines."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pai_document.problems import InvalidInput
from pai_pod.unfolding import parse_unfolded
from tests.init_harness import PROPOSED, folded

INIT = """\
initPlugins:
- name: frameworkParser
  command: pai/frameworkBarrier framework.json
- name: frameworkParser
  command: frameworkParser.py framework.json
"""


@pytest.mark.parametrize(
    "text",
    [
        PROPOSED,
        INIT,
        "initPlugins:\n- name: one\n- name: two\n",
        "runtimePlugin:\n- plugin: ssh\ncommands: ['runtimePlugin: - plugin: x', \"a: - name: b\"]\n",
        "commands: ['it''s: fine']\nruntimePlugin: []\n",
        "{commands: [ls], runtimePlugin: [{plugin: ssh}]}",
    ],
)
def test_a_folded_text_means_what_was_written(text: str) -> None:
    assert parse_unfolded(folded(text), "X").data == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", [PROPOSED, INIT, "commands:\n- a - name:b\n- 'runtimePlugin: - plugin: x'\n"]
)
def test_a_text_that_is_yaml_is_taken_as_it_is(text: str) -> None:
    assert parse_unfolded(text, "X").data == yaml.safe_load(text)


def test_a_text_that_cannot_be_unfolded_is_reported_as_it_was_given() -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_unfolded("commands: [ runtimePlugin: - plugin: ssh", "RUNTIME_CONFIG")
    (problem,) = raised.value.problems
    assert problem.position is not None
    assert (problem.position.file, problem.position.line) == ("RUNTIME_CONFIG", 1)


_WORDS = st.text("abc:-{}'\" #", min_size=1, max_size=12)
_PARAMETERS = st.dictionaries(st.sampled_from(["jobssh", "plugin", "name"]), _WORDS, min_size=1)
_ITEMS = st.lists(
    st.fixed_dictionaries({"plugin": st.sampled_from(["ssh", "cmd"])}, optional={"parameters": _PARAMETERS})
)
_CONFIGS = st.fixed_dictionaries({"commands": st.lists(_WORDS), "runtimePlugin": _ITEMS})


@given(_CONFIGS)
def test_unfolding_undoes_what_folding_does_to_any_configuration(config: dict[str, Any]) -> None:
    # Lists of text in brackets and quotes: what a list of lines was, folding does not leave.
    commands = yaml.safe_dump(config["commands"], default_flow_style=True, default_style='"', width=10_000)
    rest = yaml.safe_dump({"runtimePlugin": config["runtimePlugin"]}, default_style=None, width=10_000)
    text = f"commands: {commands.strip()}\n{rest}"
    assert parse_unfolded(folded(text), "X").data == config
