"""A check for commands that YAML folds into the one above, since their '-' is indented further."""

import re

from pai_document.problems import Problem, Problems, field_name
from pai_document.value import Value, is_commands, walk

_ITEM = re.compile(r"\n *- ")


def warn_of_folded_commands(root: Value, problems: Problems) -> None:
    """Warn of commands in the document of a job that YAML has folded into the command above."""
    for path, node in walk(root.node):
        if len(path) < 2 or not (isinstance(path[-1], int) and is_commands(path[-2])):  # noqa: PLR2004
            continue
        text = node.source.text
        folded = _ITEM.search(text, node.start, node.end)
        if folded and text[node.start] not in "'\"|>":
            first = node.source.position(node.start)
            dash = node.source.line(first.line).rfind("-", 0, first.column - 1) + 1
            expected = f"column {dash}, as in line {first.line}"
            message = f"continues the command of line {first.line}; to be one, it has to start in {expected}"
            where, field = node.source.position(folded.end() - 2), field_name(path)
            found, code = f"column {where.column}", "wrong-indentation"
            problems.add(Problem(code, message, where, field, found, expected, severity="warning"))
