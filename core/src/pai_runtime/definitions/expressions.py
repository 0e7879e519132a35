"""Templates whose expressions are more than names, by Jinja2 in a sandbox.

What they can do is little: filters and operators on values, and ``{% if %}``. Each result is bounded, and an
expression uses each of its parts once, so that no template takes much time or memory.
"""

import math
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from pai_runtime.definitions.model import Given
from pai_runtime.definitions.template import LONGEST, Piece, WrongTemplate, as_text
from pai_runtime.task import placeholders

_MOST_NODES = 1000
_DEEPEST = 50
_MOST_BITS = 1024
_MOST_DIGITS = 300
_MOST_DECIMALS = 20
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


class _Whole(int):
    """A whole number that is inserted as it was written."""

    written: str

    def __new__(cls, number: int, written: str) -> "_Whole":
        made = super().__new__(cls, number)
        made.written = written
        return made


class _Real(float):
    """The same for other numbers: ``0.10``."""

    written: str

    def __new__(cls, number: float, written: str) -> "_Real":
        made = super().__new__(cls, number)
        made.written = written
        return made


class _Inserted(str):
    """What an expression becomes in a text, with its value."""

    value: Any

    def __str__(self) -> str:  # the compiled template calls `str`, which must not lose the value
        return self


class Expressions:
    """The template in a text; `names` are the variables that it uses."""

    def __init__(self, text: str) -> None:
        self._tree = _checked(text)
        self.names = _names(self._tree)
        workers = (each for kind in _WORKERS for each in self._tree.find_all(kind) if _works(each))
        self._worked_on = {name for worker in workers for name in _names(worker)}

    def pieces(self, variables: Mapping[str, Given]) -> list[Piece]:
        """What it becomes, part by part; raises `WrongTemplate`."""
        found, length = [], 0
        for name in self._worked_on:
            if placeholders.has_secret(variables[name].data):
                raise WrongTemplate(f"'{name}' is a secret, which can be inserted, joined and tested only")
        operands = {name: _operand(name, variables[name]) for name in self.names}
        try:
            for text in self._compiled.generate(operands):
                found.append(
                    Piece(str(text), inserted=True, data=_plain(text.value))
                    if isinstance(text, _Inserted)
                    else Piece(text)
                )
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
    """The template in a text; raises `WrongTemplate`."""
    return Expressions(text)


def _checked(text: str) -> nodes.Template:
    if "\r" in text:
        raise WrongTemplate("a carriage return cannot stand beside such an expression")
    try:
        tree = _environment().parse(text)
    except TemplateSyntaxError as error:
        raise WrongTemplate(
            f"{error.message}; text that is no template stands between {{% raw %}} and {{% endraw %}}"
        ) from None
    except RecursionError:
        raise WrongTemplate("nested too deeply") from None
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


def _check(node: nodes.Node) -> None:
    if type(node) not in _ALLOWED:
        what = type(node).__name__
        raise WrongTemplate(f"expected values, operators, filters and {{% if %}} only, found {what}")
    if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
        raise WrongTemplate(f"no filter is named '{node.name}'; known: {', '.join(_FILTERS)}")


def _names(tree: nodes.Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in tree.find_all(nodes.Name)))


def _works(node: nodes.Node) -> bool:
    """Whether what it makes of a value depends on more than that there is one."""
    return not isinstance(node, nodes.Filter) or node.name not in ("d", "default", "join")


class _Joining(NodeTransformer):
    """Makes ``~`` the filter `join`, which is bounded and writes values as they are inserted."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - the library's name
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes), "join", [], [], None, None, lineno=node.lineno)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Values have no attributes but the keys of mappings, and each result is bounded."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        is_there = (isinstance(obj, dict) and isinstance(argument, str)) or (
            isinstance(obj, list) and isinstance(argument, int)
        )
        try:
            return obj[argument] if is_there else self.undefined(obj=obj, name=argument)
        except LookupError:
            return self.undefined(obj=obj, name=argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if _is_number(left) and _is_number(right):
            return _bounded(super().call_binop(context, operator, left, right))
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return _short(left + right)
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
    made.filters.update(_FILTERS)
    return made


@pass_context  # so that constants, too, are finalized when rendered
def _finalize(_context: Context, value: Any) -> str:
    is_text = not isinstance(value, (dict, list, tuple))
    made = _Inserted(_text(value) if is_text else "")
    made.value = list(value) if isinstance(value, tuple) else value
    return made


def _operand(name: str, given: Given) -> Any:
    data = given.data
    if isinstance(data, str) and len(data) > LONGEST:
        raise WrongTemplate(f"the value of '{name}' is longer than {LONGEST} characters")
    if type(data) is int:
        return _Whole(data, given.text)
    return _Real(data, given.text) if isinstance(data, float) else data


def _plain(value: Any) -> Any:
    """A result without what is known of how it was written."""
    if isinstance(value, _Whole):
        return int(value)
    if isinstance(value, _Real):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _text(value: Any) -> str:
    """A value as it is inserted into a text."""
    if isinstance(value, Undefined):
        str(value)  # raises what is the matter with it
    if isinstance(value, (list, tuple, dict)):
        raise WrongTemplate("expected a single value, found a list or mapping")
    return value.written if isinstance(value, (_Whole, _Real)) else as_text(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bounded(number: Any) -> Any:
    is_fine = math.isfinite(number) if isinstance(number, float) else number.bit_length() <= _MOST_BITS
    if not is_fine:
        raise WrongTemplate("the number becomes too large")
    return number


def _short(text: str) -> str:
    if len(text) > LONGEST:
        raise WrongTemplate(f"the text becomes longer than {LONGEST} characters")
    return text


def _replace(value: Any, old: str, new: str) -> str:
    text, old, new = _text(value), _text(old), _text(new)
    if not old:
        raise WrongTemplate("'replace' needs a text to look for")
    if len(text) + text.count(old) * (len(new) - len(old)) > LONGEST:
        raise WrongTemplate(f"the text becomes longer than {LONGEST} characters")
    return text.replace(old, new)


def _join(values: Any, separator: Any = "") -> str:
    if not isinstance(values, (list, tuple)):
        raise WrongTemplate("'join' works on a list")
    between, length = _text(separator), 0
    texts = []
    for value in values:
        texts.append(_text(value))
        length += len(texts[-1]) + len(between)
        if length > LONGEST + len(between):
            raise WrongTemplate(f"the text becomes longer than {LONGEST} characters")
    return between.join(texts)


def _number(make: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    def made(value: Any) -> Any:
        text = value if _is_number(value) else _text(value).strip()
        try:
            if isinstance(text, str) and len(text) > _MOST_DIGITS:
                raise ValueError
            return _bounded(make(text))
        except ValueError:
            raise WrongTemplate(f"expected {what}") from None

    return made


def _round(value: Any, decimals: int = 0) -> Any:
    if not _is_number(value) or abs(decimals) > _MOST_DECIMALS:
        raise WrongTemplate(f"'round' works on numbers, with at most {_MOST_DECIMALS} decimals")
    return round(float(value), decimals)


def _abs(value: Any) -> Any:
    if not _is_number(value):
        raise WrongTemplate("'abs' works on numbers")
    return abs(value)


def _length(value: Any) -> int:
    if not isinstance(value, (str, list, tuple, dict)):
        raise WrongTemplate("'length' works on texts, lists and mappings")
    return len(value)


def _item(index: int, name: str) -> Callable[[Any], Any]:
    def item(value: Any) -> Any:
        if not isinstance(value, (str, list, tuple)) or not value:
            raise WrongTemplate(f"'{name}' works on texts and lists that are not empty")
        return value[index]

    return item


def _default(value: Any, default: Any = "", boolean: bool = False) -> Any:  # noqa: FBT001, FBT002 - Jinja2's own
    return default if isinstance(value, Undefined) or (boolean and not value) else value


_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": _abs,
    "d": _default,
    "default": _default,
    "first": _item(0, "first"),
    "float": _number(float, "a number"),
    "int": _number(int, "a whole number"),
    "join": _join,
    "last": _item(-1, "last"),
    "length": _length,
    "lower": lambda value: _text(value).lower(),
    "replace": _replace,
    "round": _round,
    "string": _text,
    "trim": lambda value: _text(value).strip(),
    "upper": lambda value: _text(value).upper(),
}
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
    """What went wrong, without values, which may be secrets."""
    if isinstance(error, (WrongTemplate, TemplateError)):
        return str(error)
    return "division by zero" if isinstance(error, ZeroDivisionError) else "values of the wrong type"
