"""The rules of an exit spec, which map evidence to reasons.

An exit spec is a list of entries, as the platform writes it: which entry is of use is read, what is wrong
with others is told, and keys that are not known here mean nothing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from pai_runtime.plugin import Behavior

SHIPPED = "exit-spec.yaml"
"""The file name of the shipped exit spec, which is also its name in messages."""

COMPILED = "exit-spec.json"
"""The file with the rules of `SHIPPED`, checked, as JSON; written by ``tools/reference.py``."""

MOST_CODE = 255
OUTCOMES = ("failed", "setup-failed", "timeout")
PHASES = ("init", "taskStarts", "command")
GPU_STATES = ("nvidiaDoubleEccError", "nvidiaGpuLost")

_FIELDS: Mapping[str, tuple[str, Any, str]] = {
    "exitCode": ("exit_code", int, "a whole number"),
    "signal": ("signal", int, "the number of a signal"),
    "outcome": ("outcome", OUTCOMES, ""),
    "phase": ("phase", PHASES, ""),
    "plugin": ("plugin", str, "the id of a plugin"),
    "oomKilled": ("oom_killed", bool, "true or false"),
    "diskFull": ("disk_full", bool, "true or false"),
    "userLogRegex": ("user_log", str, "a regular expression"),
    "platformLogRegex": ("platform_log", str, "a regular expression"),
    "gpuInfo": ("gpu", Mapping, "a mapping"),
}
"""The fields of a pattern: attribute, type or allowed words, and description of what is expected."""


class Pattern(NamedTuple):
    """The evidence that a rule requires: all of it has to be present; None matches anything.

    `exit_code` is the command's, `plugin` the id of the one that failed, or its last part. The expressions
    are RE2's. `gpu` has findings as in `Evidence.gpu`; of a list, one is enough. Each match of `user_log` has
    one of the `literals`, if there are any.
    """

    exit_code: int | None = None
    signal: int | None = None
    outcome: str | None = None
    phase: str | None = None
    plugin: str | None = None
    oom_killed: bool | None = None
    disk_full: bool | None = None
    user_log: str | None = None
    platform_log: str | None = None
    gpu: Mapping[str, Any] = MappingProxyType({})
    literals: Sequence[str] = ()

    def __str__(self) -> str:
        names = {attribute: name for name, (attribute, _, _) in _FIELDS.items()}
        words = [f"{names[field]} {value}" for field, value in _asked(self).items() if field in names]
        return ", ".join(words) or "always"


class Rule(NamedTuple):
    """A rule: what is concluded if one of its `patterns` matches.

    `number` is the position of its entry in `source`, from 1. `at_end` is for errors that programs may
    survive: they count in the user's log only at its end (`last_words`).
    """

    code: int
    phrase: str
    patterns: tuple[Pattern, ...]
    source: str
    number: int
    behavior: Behavior = "UNKNOWN"
    reason: str = ""
    solution: tuple[str, ...] = ()
    because_of_peer: bool = False
    at_end: bool = False


class Fault(NamedTuple):
    """A fault of an entry of an exit spec; `path` leads from the entry to it."""

    source: str
    number: int
    phrase: str
    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{self.source}: {self.about_entry}"

    @property
    def about_entry(self) -> str:
        """The message without the source."""
        name = f"entry {self.number} ({self.phrase})" if self.phrase else f"entry {self.number}"
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        parts = [name if self.number else "", "".join(steps).removeprefix("."), self.message]
        return ": ".join(filter(None, parts))


def shipped_rules() -> list[Rule]:
    """Return the rules of the shipped exit spec, as they were read when `COMPILED` was written."""
    # Each task that fails makes them: the YAML takes a hundred times as long to read, checks 20 ms.
    rules = json.loads(Path(__file__).with_name(COMPILED).read_bytes())
    for rule in rules:
        rule["patterns"] = tuple(Pattern(**pattern) for pattern in rule["patterns"])
        rule["solution"] = tuple(rule["solution"])
    return [Rule(**rule) for rule in rules]


def compiled(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the file `COMPILED`: the rules of an exit spec without faults, one on each line."""
    from pai_failure_analysis.literals import literals  # noqa: PLC0415 - not where rules are only read

    rules, faults = read_rules(entries, SHIPPED)
    assert not faults, faults  # noqa: S101 - these are ours
    lines = []
    for rule in rules:
        patterns = [each._replace(literals=literals(each.user_log or "")) for each in rule.patterns]
        document = {**rule._asdict(), "patterns": [_asked(each) for each in patterns]}
        lines.append(json.dumps(document, separators=(",", ":")))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _asked(pattern: Pattern) -> dict[str, Any]:
    """Return the fields of a pattern that require anything."""
    return {name: value for name, value in pattern._asdict().items() if value not in (None, {}, (), [])}


def shipped_entries() -> list[dict[str, Any]]:
    """Return the entries of the shipped exit spec as data, as they were written."""
    import yaml  # noqa: PLC0415 - slow, and not for the hook

    text = Path(__file__).with_name(SHIPPED).read_bytes()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: list[dict[str, Any]] = yaml.load(text, Loader=loader)  # noqa: S506 - both are safe
    return entries


def read_rules(entries: Any, source: str, *, check: bool = True) -> tuple[list[Rule], list[Fault]]:
    """Read the rules of an exit spec; return them and the faults of patterns or entries that are left out.

    `check` False is for entries whose expressions RE2 has accepted before. An entry without patterns
    describes a code of the platform: what it says applies to the entries with patterns of the same code,
    unless they say it themselves.
    """
    reader = _Reader(source, check=check)
    return list(reader.rules(entries)), reader.faults


class _Bad(Exception):
    """The exception for an invalid value, with its path below the entry and a message."""

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(message)


class _Reader:
    def __init__(self, source: str, *, check: bool) -> None:
        self._source = source
        self._check = check
        self._number = 0
        self._phrase = ""
        self.faults: list[Fault] = []

    def rules(self, entries: Any) -> Iterator[Rule]:
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            self._report(_Bad((), f"expected a list of entries, found {_shown(entries)}"))
            return
        described = {
            _code_of(entry): entry
            for entry in entries
            if isinstance(entry, Mapping) and not entry.get("patterns")
        }
        for self._number, entry in enumerate(entries, 1):
            self._phrase = ""
            try:
                if isinstance(entry, Mapping) and not entry.get("patterns"):
                    continue
                yield from self._rule(_typed((), entry, Mapping, "a mapping"), described)
            except _Bad as bad:
                self._report(bad, "; the entry is ignored")

    def _rule(self, own: Mapping[str, Any], described: Mapping[Any, Mapping[str, Any]]) -> Iterator[Rule]:
        code = _typed(("containerExitCode",), _code_of(own), int, "a whole number from 1 to 255")
        entry = {**described.get(code, {}), **own}
        self._phrase = _typed(("phrase",), entry.get("phrase") or f"ExitCode{code}", str, "text")
        if not 0 < code <= MOST_CODE:
            raise _Bad(("containerExitCode",), f"expected a whole number from 1 to 255, found {code}")
        behavior: Any = _one_of(("behavior",), entry.get("behavior") or "UNKNOWN", get_args(Behavior))
        reason = _typed(("reason",), entry.get("reason") or "", str, "text")
        solution = entry.get("solution") or []
        lines = (
            [solution]
            if isinstance(solution, str)
            else _typed(("solution",), solution, list, "a list of strings")
        )
        advice = tuple(_typed(("solution", number), line, str, "text") for number, line in enumerate(lines))
        peer = _typed(("becauseOfPeer",), entry.get("becauseOfPeer", False), bool, "true or false")
        at_end = _typed(("atEnd",), entry.get("atEnd", False), bool, "true or false")
        patterns = tuple(self._patterns(_typed(("patterns",), own["patterns"], list, "a list of patterns")))
        if patterns:
            yield Rule(
                code=code,
                phrase=self._phrase,
                patterns=patterns,
                source=self._source,
                number=self._number,
                behavior=behavior,
                reason=" ".join(reason.split()),
                solution=tuple(" ".join(line.split()) for line in advice),
                because_of_peer=peer,
                at_end=at_end,
            )

    def _patterns(self, patterns: Sequence[Any]) -> Iterator[Pattern]:
        for index, pattern in enumerate(patterns):
            try:
                yield self._pattern(("patterns", index), pattern)
            except _Bad as bad:
                self._report(bad, "; the pattern is ignored")

    def _pattern(self, path: tuple[str | int, ...], given: Any) -> Pattern:
        values: dict[str, Any] = {}
        fields = _typed(path, given, Mapping, "a mapping")
        asks = any(value is not None for value in fields.values())
        for name, value in fields.items():
            if name not in _FIELDS:
                # Left out, it would make the pattern match more than it was meant to.
                raise _Bad(path, f"unknown field {name!r}; known: {', '.join(_FIELDS)}")
            attribute, kind, expected = _FIELDS[name]
            if value is None and asks:
                continue  # to the platform, it is not given; but nothing at all would always fit
            if isinstance(kind, tuple):
                values[attribute] = _one_of((*path, name), value, kind)
            else:
                values[attribute] = _typed((*path, name), value, kind, expected)
        self._look_at_gpu((*path, "gpuInfo"), values.get("gpu", {}))
        if self._check:
            for name in ("userLogRegex", "platformLogRegex"):
                _check_expression((*path, name), values.get(_FIELDS[name][0]))
        return Pattern(**values)

    def _look_at_gpu(self, path: tuple[str | int, ...], gpu: Mapping[str, Any]) -> None:
        for name, value in gpu.items():
            if name == "nvidiaXid":
                for number, xid in enumerate(_typed((*path, name), value, list, "a list of numbers")):
                    _typed((*path, name, number), xid, int, "a whole number")
            elif name in GPU_STATES:
                _typed((*path, name), value, bool, "true or false")
            else:
                raise _Bad(path, f"unknown field {name!r}; known: {', '.join((*GPU_STATES, 'nvidiaXid'))}")

    def _report(self, bad: _Bad, consequence: str = "") -> None:
        message = f"{bad.message}{consequence}"
        self.faults.append(Fault(self._source, self._number, self._phrase, bad.path, message))


def _code_of(entry: Mapping[str, Any]) -> Any:
    code = entry.get("containerExitCode", entry.get("code"))
    return None if isinstance(code, (list, Mapping)) else code


def _typed(path: tuple[str | int, ...], value: Any, kind: Any, expected: str) -> Any:
    # To Python, true is a number too.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _Bad(path, f"expected {expected}, found {_shown(value)}")
    return value


def _one_of(path: tuple[str | int, ...], value: Any, words: tuple[str, ...]) -> str:
    if value not in words:
        raise _Bad(path, f"expected one of {', '.join(words)}, found {_shown(value)}")
    return str(value)


def _check_expression(path: tuple[str | int, ...], expression: str | None) -> None:
    from pai_failure_analysis import regex  # noqa: PLC0415 - not where nothing is checked

    if expression is not None and (words := regex.fault(expression)):
        raise _Bad(path, f"invalid RE2 expression {_shown(expression)}: {words}")


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    is_placeholder = isinstance(value, str) and "\0" in value  # of a secret: whoever shows it knows its name
    text = f"'{value}'" if is_placeholder else repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"  # noqa: PLR2004 - what fits a line
