"""Templates with expressions beyond names, rendered by Jinja2 in a sandbox.

What they can do is little: filters and operators on values, and ``{% if %}``. Each result is bounded, and an
expression uses each of its parts once, so that no template takes much time or memory.
"""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from pai_definitions.filters import (
    FILTERS,
    WrittenFloat,
    WrittenInt,
    bounded_number,
    check_length,
    inserted_text,
    is_number,
)
from pai_definitions.template import LONGEST, Piece, WrongTemplate
from pai_runtime.definitions import Given
from pai_task import placeholders

_MOST_NODES = 1000
_DEEPEST = 50
_MOST_VALUES = 1000
_WORKERS: Final = (nodes.Filter, nodes.Compare, nodes.BinExpr, nodes.UnaryExpr)
_ALLOWED: Final = frozenset(
    {
        *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If),
        *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Getattr, nodes.Getitem, nodes.CondExpr),
        *(nodes.Filter, nodes.Keyword, nodes.Concat, nodes.Compare, nodes.Operand),
        *(nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos),
        *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod),
    }
)


class _Inserted(str):
    """The text of an expression's result, together with its value."""

    __slots__ = ("text", "value")
    text: str
    value: Any

    def __str__(self) -> str:  # the compiled template calls `str`, which must not lose the value
        return self


class Expressions:
    """The compiled template in a text; `names` are the variables that it uses."""

    def __init__(self, text: str) -> None:
        self._tree = _checked(text)
        self.names = _names(self._tree)
        workers = (each for kind in _WORKERS for each in self._tree.find_all(kind) if _works(each))
        indexes = (each.arg for each in self._tree.find_all(nodes.Getitem))
        self._worked_on = {name for worker in (*workers, *indexes) for name in _names(worker)}

    def pieces(self, variables: Mapping[str, Given]) -> list[Piece]:
        """Render the template as a list of pieces. Raises `WrongTemplate`."""
        found, length = [], 0
        operands = {name: _operand(name, variables[name]) for name in self.names}
        for name in self._worked_on:
            if placeholders.has_secret(operands[name]):
                raise WrongTemplate(f"'{name}' is a secret, which can be inserted, joined and tested only")
        try:
            for text in self._compiled.generate(operands):
                is_own = not isinstance(text, _Inserted)
                found.append(Piece(text) if is_own else Piece(text.text, inserted=True, data=text.value))
                length += len(text)
                if length > LONGEST:
                    break  # whoever joins them says so
        except _FAULTS as error:
            raise WrongTemplate(_why(error)) from None
        return found

    @cached_property
    def _compiled(self) -> Any:
        return _environment().from_string(_Joining().visit(self._tree))


@lru_cache(maxsize=1024)
def parsed(text: str) -> Expressions:
    """Parse the template in a text, cached. Raises `WrongTemplate`."""
    return Expressions(text)


def _checked(text: str) -> nodes.Template:
    if "\r" in text:
        raise WrongTemplate("a carriage return cannot stand beside such an expression")
    try:
        tree = _environment().parse(text)
    except TemplateSyntaxError as error:
        raise WrongTemplate(
            f"{_syntax_fault(error.message or '')}; to have text that is no template, write it"
            " between {% raw %} and {% endraw %}"
        ) from None
    except RecursionError:
        raise WrongTemplate("nested too deeply") from None
    except ValueError:  # Python makes no number of thousands of digits
        raise WrongTemplate("the number becomes too large") from None
    level: list[nodes.Node] = [tree]
    count = 0
    for _ in range(_DEEPEST):
        level = [child for node in level for child in node.iter_child_nodes()]
        count += len(level)
        for node in level:
            _check(node)
        if count > _MOST_NODES:
            raise WrongTemplate(f"more than {_MOST_NODES} names and operators")
        if not level:
            return tree
    raise WrongTemplate("nested too deeply")


def _syntax_fault(message: str) -> str:
    """Return Jinja2's message, rephrased for authors of definitions for the commonest mistakes."""
    if "end of print statement" in message:
        return "'{{' is not closed; expected '}}'"
    if match := re.search(r"needs to be closed is '(\w+)'", message):
        return f"'{{% {match[1]} %}}' is not closed; expected '{{% end{match[1]} %}}'"
    return message.rstrip(".")


def _check(node: nodes.Node) -> None:
    if type(node) not in _ALLOWED:
        what = type(node).__name__.lower()
        raise WrongTemplate(f"expected values, operators, filters and {{% if %}} only, found '{what}'")
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise WrongTemplate(f"no filter is named '{node.name}'; known: {', '.join(FILTERS)}")
    if isinstance(node, nodes.Const) and is_number(node.value):
        bounded_number(node.value)


def _names(tree: nodes.Node) -> tuple[str, ...]:
    found = [tree] if isinstance(tree, nodes.Name) else tree.find_all(nodes.Name)
    return tuple(dict.fromkeys(each.name for each in found))


def _works(node: nodes.Node) -> bool:
    """Return whether the result of a node depends on its operand's value, not only on its presence."""
    return not isinstance(node, nodes.Filter) or node.name not in ("d", "default", "join")


class _Joining(NodeTransformer):
    """A transformer of ``~`` into the filter `join`, which is bounded and writes values as inserted."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - the library's name
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes), "join", [], [], None, None, lineno=node.lineno)


class _Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which values have no attributes but the keys of mappings, and results are bounded."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._item(obj, attribute, f"'{attribute}'")

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self._item(obj, argument, "such item")  # what it is may come from a variable

    def _item(self, obj: Any, key: Any, shown: str) -> Any:
        if isinstance(obj, Undefined):
            return obj
        is_key = isinstance(obj, dict) and isinstance(key, str)
        is_index = isinstance(obj, (list, tuple)) and is_number(key)
        with suppress(LookupError, TypeError):
            if is_key or is_index:
                return obj[key]
        return self.undefined(hint=f"a value has no {shown}")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if is_number(left) and is_number(right):
            return bounded_number(super().call_binop(context, operator, left, right))
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            check_length(len(left) + len(right))
            return left + right
        raise WrongTemplate(f"'{operator}' works on numbers; '~' joins texts")


@lru_cache(maxsize=1)
def _environment() -> _Sandbox:
    made = _Sandbox(
        undefined=StrictUndefined,
        finalize=_finalize,
        keep_trailing_newline=True,
        optimized=False,
        cache_size=0,
        # In a shell, ${#x} is the length of a variable. No text has the character NUL.
        comment_start_string="\0{#",
        comment_end_string="#}\0",
    )
    made.globals.clear()
    made.tests.clear()
    made.filters.clear()
    made.filters.update(FILTERS)
    return made


@pass_context  # so that constants, too, are finalized when rendered
def _finalize(_context: Context, value: Any) -> str:
    text = "" if isinstance(value, (dict, list, tuple)) else inserted_text(value)
    made = _Inserted(text)
    made.text, made.value = text, _plain(value)
    return made


def _operand(name: str, given: Given) -> Any:
    data = given.data
    if isinstance(data, str) and len(data) > LONGEST:
        raise WrongTemplate(f"the value of '{name}' is longer than {LONGEST} characters")
    if isinstance(data, (dict, list)) and _is_large(data):
        raise WrongTemplate(
            f"'{name}' has more than {_MOST_VALUES} values, or {LONGEST} characters, in it:"
            " it can only be inserted as it is"
        )
    if not is_number(data):
        return data
    number: Any = WrittenFloat(data) if isinstance(data, float) else WrittenInt(data)
    number.written = given.text
    return number


def _is_large(data: Any) -> bool:
    """Return whether comparing a value, or searching it for secrets, takes long."""
    waiting, count, length = [data], 0, 0
    while waiting and count <= _MOST_VALUES and length <= LONGEST:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += islice(value.keys(), _MOST_VALUES)
            value = value.values()
        if isinstance(value, str):
            length += len(value)
        elif isinstance(value, Collection):
            waiting += islice(value, _MOST_VALUES)
            count += len(value)
    return count > _MOST_VALUES or length > LONGEST


def _plain(value: Any) -> Any:
    """Return a result without the information how its numbers were written."""
    if isinstance(value, WrittenInt):
        return int(value)
    if isinstance(value, WrittenFloat):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


_FAULTS: Final = (
    WrongTemplate,
    TemplateError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    RecursionError,
)


def _why(error: BaseException) -> str:
    """Return what went wrong, without values, which may be secrets."""
    if isinstance(error, (WrongTemplate, TemplateError)):
        return str(error)
    return "division by zero" if isinstance(error, ZeroDivisionError) else "values of the wrong type"
