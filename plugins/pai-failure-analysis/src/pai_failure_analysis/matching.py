"""The search for the first rule that matches the evidence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pai_failure_analysis import regex
from pai_failure_analysis.cuda_errors import as_raised
from pai_failure_analysis.ending import (
    KILLED,
    as_shells_say,
    end_of_a_rank,
    end_of_program,
    ends_by_own_exception,
    flush,
    without_cancelled,
    without_conversion,
    without_hydra,
    without_ignored,
    without_outputs,
    without_probes,
    without_wrappers,
)
from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.inner_messages import MOST_SEARCHED, inner_messages
from pai_failure_analysis.last_words import last_words, lived_with, since_it_went_on
from pai_failure_analysis.mentions import first_error
from pai_failure_analysis.plain_lines import plain
from pai_failure_analysis.rules import SHIPPED, Pattern, Rule
from pai_failure_analysis.xids import with_meaning

OTHER_TASKS = 237
"""The code of rules about what other tasks did."""

GENERIC = frozenset(
    [
        "Aborted",
        "CoreDumped",
        "Killed",
        "NativeCheckFailed",
        "PathMissing",
        "PythonError",
        "PythonOtherError",
        "PythonRuntimeError",
        "PythonValueError",
        "SubprocessFailed",
        "Terminated",
        "WorkerFailed",
    ]
)
"""Rules that say what kind of failure it was, and not why."""

_CUT_OFF = "Traceback (most recent call last)"
"""How a match ends in a traceback without its exception, which only what stands before may tell."""

_OF_ANOTHER = frozenset(["SubprocessFailed", "WorkerFailed"])
"""Those of them that say that another program failed, which may have said why."""

LONGEST_MATCH = 2048
"""Maximum bytes of a matched text that are kept."""


class Found(NamedTuple):
    """A match in a log: start and end in the searchable text, in bytes, and its beginning as text."""

    start: int
    end: int
    text: str


class Match(NamedTuple):
    """The matching rule, the pattern by which it matched, and what that found in the logs."""

    rule: Rule
    pattern: Pattern
    user: Found | None = None
    platform: Found | None = None

    @property
    def trigger(self) -> str:
        """The rule and the pattern that matched, for people."""
        rule = self.rule
        return f"rule {rule.phrase} (entry {rule.number} of {rule.source}): {self.pattern}"

    @property
    def user_match(self) -> str:
        """The matched text in the user's log."""
        return self.user.text if self.user else ""

    @property
    def platform_match(self) -> str:
        """The matched text in the platform's log."""
        return self.platform.text if self.platform else ""


class Matcher:
    """Rules in their order, ready to be tried on any number of failures.

    Shipped rules are tried on what ended the program, as far as its log shows that. If no rule matches, or a
    shipped one that says no more than the kind of failure, they are also tried on the messages within the
    last ones. Others, which mean what they meant to the platform, are tried on the log as it is.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        tried = [_Try(number, *each) for number, each in enumerate(_patterns(rules))]
        self._has_shipped = any(map(_is_shipped, rules))
        self._shipped = _Tries([each for each in tried if _is_shipped(each.rule)])
        self._others = _Tries([each for each in tried if not _is_shipped(each.rule)])

    def first_match(self, evidence: Evidence) -> Match | None:
        """Return the first rule with a matching pattern, and that pattern; None if there is none."""
        user = searchable(evidence.user_log)
        platform = user if evidence.platform_log is evidence.user_log else searchable(evidence.platform_log)
        ending, own_exception = _ending(user, evidence.exit_code) if self._has_shipped else (user, False)
        possible = [
            *self._others.possible(_Logs(user, user, platform)),
            *self._shipped.possible(_Logs(user, ending, platform), peers_last=own_exception),
        ]
        match = _first(possible, evidence)
        if match and not (_is_shipped(match.rule) and match.rule.phrase in GENERIC):
            return match
        return self._within(match, evidence, user) if self._has_shipped else match

    def _within(self, generic: Match | None, evidence: Evidence, log: bytes) -> Match | None:
        """Return a match in the messages within the line of a generic match or, without one or if it tells
        of another program, within the end of a log; if none is more exact, the generic match.
        """
        spans = []
        is_cut_off = bool(generic and generic.user and generic.user.text.endswith(_CUT_OFF))
        if generic and generic.user and not is_cut_off:
            start = log.rfind(b"\n", 0, generic.user.start) + 1
            spans = [(start, log[start : start + MOST_SEARCHED].partition(b"\n")[0])]
        if not generic or is_cut_off or (generic.user and generic.rule.phrase in _OF_ANOTHER):
            lines = log if len(log) <= MOST_SEARCHED else log[-MOST_SEARCHED:].partition(b"\n")[2]
            spans.append((len(log) - len(lines), lines))
        for start, lines in spans:
            inner = self._within_lines(evidence, lines, start)
            if inner and inner.rule.phrase not in GENERIC and not _is_the_same(generic, inner):
                return inner
            generic = generic or inner
        return generic

    def _within_lines(self, evidence: Evidence, lines: bytes, start: int) -> Match | None:
        """Return a match in the messages within lines at an index of the log, a generic one if none is more
        exact.
        """
        generic = None
        for text in inner_messages(lines):
            inner = _first(self._shipped.possible(_Logs(lines, text, b"")), evidence)
            if not inner or not inner.user:
                continue
            # What was found may be written in another way in the log, so its place is the line.
            begin = lines.rfind(b"\n", 0, inner.user.start) + 1
            line = lines[begin:].partition(b"\n")[0]
            place = Found(start + begin, start + begin + len(line), inner.user.text.strip())
            if inner.rule.phrase not in GENERIC:
                return inner._replace(user=place)
            generic = generic or inner._replace(user=place)
        return generic


class _Logs:
    """The logs of one failure: the user's, the lines of it that are searched, and the platform's."""

    def __init__(self, user: bytes, searched: bytes, platform: bytes) -> None:
        self.user, self.searched, self.platform = user, searched, platform

    @cached_property
    def last_words(self) -> int:
        """The index of the program's last words in the searched lines."""
        return last_words(self.searched)

    @cached_property
    def since_it_went_on(self) -> bytes:
        """The last of the searched lines, if they show that the program went on."""
        return since_it_went_on(self.searched)


class _Try(NamedTuple):
    """A pattern of a rule, with its number in the order of all patterns."""

    number: int
    rule: Rule
    pattern: Pattern


class _Possible(NamedTuple):
    """A pattern whose expressions are found in the logs; the least `order` is tried first."""

    order: tuple[bool, int]
    rule: Rule
    pattern: Pattern
    logs: _Logs


class _Tries:
    """Patterns of rules that are tried on the same lines, by their expressions."""

    def __init__(self, tries: Sequence[_Try]) -> None:
        self._by_user_log: dict[str | None, list[_Try]] = {}
        for each in tries:
            self._by_user_log.setdefault(each.pattern.user_log, []).append(each)
        patterns = [each.pattern for each in tries]
        self._for_user = {each.user_log: each.literals for each in patterns if each.user_log is not None}
        self._for_platform = [each.platform_log for each in patterns if each.platform_log is not None]

    def possible(self, logs: _Logs, *, peers_last: bool = False) -> Iterator[_Possible]:
        """Yield the patterns whose expressions match; with `peers_last`, those about other tasks are last."""
        if logs.platform is logs.searched:
            in_user = in_platform = self._of_both.found(logs.searched)
        else:
            in_user = self._of_user.found(logs.searched)
            in_platform = self._of_platform.found(logs.platform)
        for expression in (None, *in_user):
            for number, rule, pattern in self._by_user_log.get(expression, ()):
                if pattern.platform_log is None or pattern.platform_log in in_platform:
                    order = peers_last and rule.code == OTHER_TASKS, number
                    yield _Possible(order, rule, pattern, logs)

    # Each is made when it is needed: most failures need two of them, those of one log the third.

    @cached_property
    def _of_user(self) -> regex.Expressions:
        return regex.Expressions(self._for_user, self._for_user)

    @cached_property
    def _of_platform(self) -> regex.Expressions:
        return regex.Expressions(self._for_platform)

    @cached_property
    def _of_both(self) -> regex.Expressions:
        return regex.Expressions([*self._for_user, *self._for_platform], self._for_user)


def _first(possible: Iterable[_Possible], evidence: Evidence) -> Match | None:
    """Return the first match among patterns whose expressions match; None if there is none."""
    for _, rule, pattern, logs in sorted(possible, key=lambda each: each.order):
        if not _holds(pattern, evidence) or (at := _from(rule, pattern, evidence, logs)) is None:
            continue
        in_user = _find(pattern.user_log, logs.searched, at)
        if in_user and logs.searched is not logs.user:
            in_user = _in_original(in_user, logs.searched, logs.user)
        known = with_meaning(rule, evidence.user_log, evidence.gpu.get("nvidiaXid", ()))
        return Match(known, pattern, in_user, _find(pattern.platform_log, logs.platform))
    return None


def _patterns(rules: Iterable[Rule]) -> Iterator[tuple[Rule, Pattern]]:
    return ((rule, pattern) for rule in rules for pattern in rule.patterns)


def _is_the_same(generic: Match | None, inner: Match) -> bool:
    """Return whether a rule says no more than a generic one, which knows the tool that said it."""
    return generic is not None and (generic.rule.phrase, inner.rule.phrase) == ("PathMissing", "FileNotFound")


def _is_shipped(rule: Rule) -> bool:
    return rule.source == SHIPPED


_READINGS = (
    plain,
    without_ignored,
    without_wrappers,
    without_hydra,
    without_outputs,
    without_cancelled,
    without_conversion,
    without_probes,
    as_shells_say,
    flush,
    as_raised,
)
"""How a log is read, one after the other, before it is looked for what ended the program."""


def _ending(log: bytes, exit_code: int | None) -> tuple[bytes, bool]:
    """Return the lines of a log, as its program wrote them, that may say why it ended; the log if all may.

    Also returns whether an exception of the program itself is among these lines.
    """
    lines = log
    for read in _READINGS:
        lines = read(lines)
    at = end_of_program(lines, exit_code)
    if at == 0 and (of_rank := end_of_a_rank(log, lines, exit_code)):
        return of_rank, True
    decides = exit_code not in KILLED and (at > 0 or ends_by_own_exception(lines))
    return (log if at == 0 and lines == log else lines[at:]), decides


def _in_original(found: Found, lines: bytes, log: bytes) -> Found:
    """Return what was found in the plain lines at the end of a log, with its place in the log."""
    matched = lines[found.start : found.end].lstrip(b"\n").split(b"\n")
    below = lines.count(b"\n", found.end)
    start = _line_at(log, below + len(matched) - 1)
    end = max(start, _line_at(log, below))
    start = _in_line(log, matched[0], start)
    end = max(start, end)
    line_end = log.find(b"\n", end)  # what was found may be longer than the line that says it
    stop = _in_line(log, matched[-1], end) + len(matched[-1])
    return Found(start, min(len(log) if line_end < 0 else line_end, stop), found.text)


def _in_line(log: bytes, text: bytes, start: int) -> int:
    """Return the index of a text in the line of a log from an index on; that index if it is not there."""
    end = log.find(b"\n", start)
    return max(start, log.find(text, start, end if end >= 0 else len(log)))


def _line_at(log: bytes, below: int) -> int:
    """Return the index of the line below which there are this many line ends, its own among them."""
    above = log.rsplit(b"\n", below + 1)
    return len(above[0]) + 1 if len(above) == below + 2 else 0


def _from(rule: Rule, pattern: Pattern, evidence: Evidence, logs: _Logs) -> int | None:
    """Return the index in the user's log where to search for the match; None if it is not the cause."""
    if pattern.user_log is None:
        return 0
    user, look = logs.searched, first_error if _is_shipped(rule) else regex.first
    first = look(pattern.user_log, user)
    if first is not None and rule.at_end:
        at = logs.last_words
        in_last_words = look(pattern.user_log, user[at:])
        last = None if in_last_words is None else at + in_last_words
        end = logs.since_it_went_on
        went_on = end != b"" and look(pattern.user_log, end) is None
        if lived_with(evidence.exit_code, user, first, last, went_on=went_on):
            return None
        first = first if last is None else last
    return None if first is None else user.rfind(b"\n", 0, first) + 1


def searchable(log: bytes) -> bytes:
    """Return a log as valid UTF-8 for the expressions, with U+FFFD for each invalid byte."""
    return log if log.isascii() else log.decode("utf-8", "replace").encode()


def _holds(pattern: Pattern, evidence: Evidence) -> bool:
    oom_killed = None if evidence.oom_kills is None else evidence.oom_kills > 0
    plugin = evidence.plugin or ""
    return (
        pattern.exit_code in (None, evidence.exit_code)
        and pattern.signal in (None, evidence.signal)
        and pattern.outcome in (None, evidence.outcome)
        and pattern.phase in (None, evidence.phase)
        and pattern.plugin in (None, plugin, plugin.rpartition(".")[2])
        and pattern.oom_killed in (None, oom_killed)
        and pattern.disk_full in (None, evidence.disk_full)
        and _gpu_holds(pattern.gpu, evidence.gpu)
    )


def _gpu_holds(asked: Mapping[str, Any], gpu: Mapping[str, Any]) -> bool:
    return all(
        bool({*value} & {*gpu.get(name, ())}) if isinstance(value, list) else gpu.get(name, False) is value
        for name, value in asked.items()
    )


def _find(expression: str | None, text: bytes, at: int = 0) -> Found | None:
    if expression is None or (bounds := regex.span(expression, text[at:])) is None:
        return None
    start, end = at + bounds[0], at + bounds[1]
    return Found(start, end, text[start : min(end, start + LONGEST_MATCH)].decode("utf-8", "ignore"))
