"""The rules for what a plugin contributes that a plan can break without being invalid."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pai_runtime.plugin import Contribution, Use
from pai_task.exit_codes import MOST_CODE

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")

_PLATFORM = re.compile("(?:PAI|FC)_")
_OF_THE_PLATFORM = "com.microsoft.pai."
"""How the ids of plugins begin whose variables may begin as the platform's."""

_IMAGE: Final = frozenset(
    (
        *("HOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONPATH"),
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    )
)
"""Variables that images and machines set; as part of the environment, another value would replace theirs."""


def contribution_faults(use: Use, contribution: Contribution) -> Iterator[tuple[str, str]]:
    """Yield a code and a message for each rule that the contribution of a use breaks."""
    for name in contribution.environment:
        yield from _variable_faults(use.plugin, name)
    for rule in contribution.exit_rules:
        code: Any = rule.get("containerExitCode", 1)
        if type(code) is not int or not 1 <= code <= MOST_CODE:
            yield "exit-code", f"an exit rule has the containerExitCode {code}; expected 1 to {MOST_CODE}"
    # A job may ask for this itself, where the parameters of a plugin can.
    if use.failure_policy == "ignore" and "failurePolicy" not in json.dumps(use.parameters):
        for step in contribution.steps:
            if step.failure_policy == "fail":
                yield (
                    "failure-policy",
                    f"a step of {step.event} fails the task although the use has failurePolicy: ignore",
                )


def _variable_faults(id_: str, name: str) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(name):
        yield "variable-name", f"the variable {name!r} has a name that no shell knows"
    elif name in _IMAGE:
        extends = f'export {name}="$folder:${name}"'
        yield (
            "overwritten",
            f"the variable {name} is the image's or the machine's; a step may extend it: {extends}",
        )
    elif _PLATFORM.match(name) and not id_.startswith(_OF_THE_PLATFORM):
        yield "overwritten", f"the variable {name} has a name of the platform's; those begin with PAI_ or FC_"
