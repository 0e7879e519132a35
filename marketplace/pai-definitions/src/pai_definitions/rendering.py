"""Rendering of a definition into a prerequisite, with the values of its variables.

Rendering works on the values of the tree, never on the text of the file, so that no value becomes syntax: not
of YAML, and not of a reference. A text that is one expression without quotes becomes the value itself, of its
own type; in any other text, a value is inserted as it was written.
"""

from collections.abc import Mapping
from typing import Any

from pai_definitions.definition import ABOUT, check_fields, wrong_template
from pai_definitions.template import Template, WrongTemplate, as_text, has_template, joined
from pai_definitions.unquoted import is_bare
from pai_document.document import MAX_DEPTH, MAX_NODES
from pai_document.problems import InvalidInput, Position, Problem, Problems
from pai_document.value import Node, Source, Value, data_of
from pai_runtime.definitions import Definition, Given
from pai_task.record import replace


def rendered(definition: Definition, variables: Mapping[str, Given], required_by: Position) -> Value:
    """Render a definition as a prerequisite: a new tree, whose positions have this `required_by`.

    `variables` are the result of `pai_runtime.definitions.variables.completed`. Raises `InvalidInput`.
    """
    renderer = _Renderer(definition, variables, required_by)
    value = renderer.prerequisite()
    if renderer.problems or renderer.has_values:
        problems = Problems()
        problems.add(*renderer.problems)
        check_fields(value, value.data, problems)
        problems.check()
    return value


class _Renderer:
    """A renderer of one definition; faults are added to `problems`, except that excessive growth ends it.

    `has_values` means that there are values which reading could not check: fields that are templates, or
    variables.
    """

    def __init__(self, definition: Definition, variables: Mapping[str, Given], required_by: Position) -> None:
        written = definition.value.node.source
        self._definition = definition
        self._variables = variables
        self._source = Source(written.file, written.text, required_by)
        self._size = 0
        self.problems: list[Problem] = []
        self.has_values = False

    def prerequisite(self) -> Value:
        """Return the whole definition rendered, at its own position."""
        root = self._definition.value
        children: dict[str | int, Node] = {}
        keys: dict[str | int, int] = {}
        for field in root.values():
            if field.key not in ABOUT:
                self.has_values |= has_template(field.data)
                name = "parameters" if field.key == "plugin_params" else field.key
                children[name] = self._node(field, 1)
                keys[name] = root.node.keys[field.key]
        return Value(self._container(root.node, {}, children, keys), root.above, root.key)

    def _node(self, value: Value, depth: int) -> Node:
        node = value.node
        if isinstance(node.data, (dict, list)):
            children = {child.key: self._node(child, depth + 1) for child in value.values()}
            return self._container(node, node.data, children, node.keys)
        if not has_template(node.data):
            return self._scalar(node, node.data, node.text)
        try:
            return self._of_template(node, depth)
        except WrongTemplate as error:
            self.problems.append(self._here(wrong_template(self._definition, value, str(error))))
            return self._scalar(node, node.data, node.text)

    def _of_template(self, node: Node, depth: int) -> Node:
        pieces = Template(node.text).pieces(self._variables)
        if len(pieces) == 1 and pieces[0].inserted and is_bare(node):
            self.has_values = True
            return self._of_data(node, pieces[0].data, pieces[0].text, depth)
        text, inserted = joined(pieces)
        made = self._scalar(node, text, text)
        made.inserted = inserted
        return made

    def _of_data(self, node: Node, data: Any, text: str, depth: int) -> Node:
        """Return the value of a variable in the place of a template; nothing in it is a template again."""
        if depth > MAX_DEPTH:
            raise InvalidInput([self._at(node, "too-deep", f"nested deeper than {MAX_DEPTH} levels")])
        if isinstance(data, (dict, list)):
            items = data.items() if isinstance(data, dict) else enumerate(data)
            children = {key: self._of_data(node, each, as_text(each), depth + 1) for key, each in items}
            made = self._container(node, data, children, {})
        else:
            made = self._scalar(node, data, text)
        made.is_template = False
        return made

    def _scalar(self, node: Node, data: Any, text: str) -> Node:
        made = Node(self._source, node.start, node.end, data, text)
        self._grow(made)
        return made

    def _container(
        self, node: Node, kind: Any, children: Mapping[str | int, Node], keys: Mapping[str | int, int]
    ) -> Node:
        data = data_of(children, is_list=isinstance(kind, list))
        made = Node(self._source, node.start, node.end, data)
        self._grow(made)
        size = 1 + sum(child.size for child in children.values())
        made.children, made.keys, made.size = children, keys, size
        return made

    def _grow(self, node: Node) -> None:
        self._size += node.size
        if self._size > MAX_NODES:
            message = f"'{self._definition.name}' becomes larger than {MAX_NODES} values"
            raise InvalidInput([self._at(node, "too-many-values", message)])

    def _at(self, node: Node, code: str, message: str) -> Problem:
        return Problem(code, message, self._source.position(node.start))

    def _here(self, problem: Problem) -> Problem:
        """Return a problem of the definition with the position of this use of it."""
        assert problem.position  # noqa: S101 - it stands in a file
        position = replace(problem.position, required_by=self._source.required_by)
        return replace(problem, position=position)
