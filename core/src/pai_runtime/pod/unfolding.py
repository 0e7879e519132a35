"""Configuration in a variable of a Pod, whose YAML style ``>-`` has folded the lines.

As in ``commands: ["ls"] runtimePlugin: - plugin: ssh``: lines that were not indented are one line, and those
that were are still there. OpenPAI's own example of a Pod has it so.
"""

import re

from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import InvalidInput
from pai_runtime.document.value import Value

_KEYS = "commands|runtimePlugin|initPlugins"
_FIRST_IN_ITEM = "name|command|plugin|parameters|failurePolicy|taskroles"
_FOLD = re.compile(
    r"""("(?:\\.|[^"\\])*"|'[^']*')"""  # text in quotes, which is left as it is
    rf"|(?<=\S)[ ]+(?=(?:{_KEYS}):(?:\s|$)|-[ ]+(?:{_FIRST_IN_ITEM}):(?:\s|$))",
    re.DOTALL,
)


def parse_unfolded(text: str, name: str) -> Value:
    """The document in a text; raises `InvalidInput` for one that is none, unfolded or not.

    `name` is that of the text in messages.
    """
    try:
        return parse_document(text, name)
    except InvalidInput as error:
        try:
            return parse_document(_FOLD.sub(lambda match: match[1] or "\n", text), name)
        except InvalidInput:
            raise error from None
