"""Which rule explains a failure: order, AND and OR, logs of any bytes; and how exit specs are read."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pai_failure_analysis import matching, regex
from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.literals import literals
from pai_failure_analysis.matching import Match, Matcher
from pai_failure_analysis.rules import Pattern, Rule, read_rules, shipped_entries, shipped_rules

ANY_BYTES = bytes(range(256))


def entry(phrase: str, *patterns: Any, code: int = 200, **fields: Any) -> dict[str, Any]:
    return {"containerExitCode": code, "phrase": phrase, "patterns": list(patterns), **fields}


def read(*entries: Any) -> list[Rule]:
    rules, faults = read_rules(list(entries), "spec.yaml")
    assert not faults
    return rules


def faults(*entries: Any) -> list[str]:
    return [str(fault) for fault in read_rules(list(entries), "spec.yaml")[1]]


def match(rules: Sequence[Rule], **evidence: Any) -> Match:
    found = Matcher(rules).first_match(Evidence(**evidence))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("pattern", "evidence", "holds"),
    [
        ({}, {}, True),
        ({"exitCode": 3}, {"exit_code": 3}, True),
        ({"exitCode": 3}, {"exit_code": 4}, False),
        ({"exitCode": 3}, {}, False),
        ({"exitCode": 0}, {}, False),
        ({"signal": 9}, {"signal": 9}, True),
        ({"signal": 9}, {"exit_code": 137}, False),
        ({"outcome": "timeout"}, {"outcome": "timeout"}, True),
        ({"outcome": "timeout"}, {}, False),
        ({"phase": "init"}, {"phase": "init"}, True),
        ({"phase": "init"}, {}, False),
        ({"plugin": "org.example.git"}, {"plugin": "org.example.git"}, True),
        ({"plugin": "git"}, {"plugin": "org.example.git"}, True),
        ({"plugin": "it"}, {"plugin": "org.example.git"}, False),
        ({"plugin": "git"}, {}, False),
        ({"oomKilled": True}, {"oom_kills": 2}, True),
        ({"oomKilled": True}, {"oom_kills": 0}, False),
        ({"oomKilled": True}, {"oom_kills": None}, False),
        ({"oomKilled": False}, {"oom_kills": 0}, True),
        ({"oomKilled": False}, {"oom_kills": 2}, False),
        ({"oomKilled": False}, {"oom_kills": None}, False),
        ({"diskFull": True}, {"disk_full": True}, True),
        ({"diskFull": True}, {}, False),
        ({"diskFull": False}, {}, True),
        ({"userLogRegex": "a.c"}, {"user_log": b"xabcx"}, True),
        ({"userLogRegex": "a.c"}, {"user_log": b"a\nc"}, False),
        ({"userLogRegex": "(?s)a.c"}, {"user_log": b"a\nc"}, True),
        ({"userLogRegex": "a.c"}, {"platform_log": b"abc"}, False),
        ({"userLogRegex": "^b"}, {"user_log": b"a\nb"}, False),
        ({"userLogRegex": "(?m)^b$"}, {"user_log": b"a\nb\nc"}, True),
        ({"userLogRegex": ""}, {}, True),
        ({"userLogRegex": "Größe"}, {"user_log": "Größe".encode()}, True),
        ({"userLogRegex": "^Gr.e$"}, {"user_log": "Große".encode("latin-1")}, False),
        ({"userLogRegex": "^Gro.e$"}, {"user_log": "Große".encode("latin-1")}, True),
        ({"userLogRegex": r"\x00.*b"}, {"user_log": b"\0a\xffb"}, True),
        ({"platformLogRegex": "abc"}, {"platform_log": b"abc"}, True),
        ({"platformLogRegex": "abc"}, {"user_log": b"abc"}, False),
        ({"gpuInfo": {"nvidiaDoubleEccError": True}}, {"gpu": {"nvidiaDoubleEccError": True}}, True),
        ({"gpuInfo": {"nvidiaDoubleEccError": True}}, {}, False),
        ({"gpuInfo": {"nvidiaDoubleEccError": False}}, {}, True),
        ({"gpuInfo": {"nvidiaXid": [48, 79]}}, {"gpu": {"nvidiaXid": [13, 79]}}, True),
        ({"gpuInfo": {"nvidiaXid": [48, 79]}}, {"gpu": {"nvidiaXid": [13]}}, False),
        ({"gpuInfo": {"nvidiaXid": [48]}}, {}, False),
        ({"exitCode": 1, "userLogRegex": "a"}, {"exit_code": 1, "user_log": b"a"}, True),
        ({"exitCode": 1, "userLogRegex": "a"}, {"exit_code": 2, "user_log": b"a"}, False),
        ({"exitCode": 1, "userLogRegex": "a"}, {"exit_code": 1, "user_log": b"b"}, False),
        ({"userLogRegex": "a", "platformLogRegex": "b"}, {"user_log": b"a", "platform_log": b"b"}, True),
        ({"userLogRegex": "a", "platformLogRegex": "b"}, {"user_log": b"ab", "platform_log": b"a"}, False),
    ],
)
def test_a_pattern_holds_if_all_that_it_asks_for_is_there(
    pattern: dict[str, Any],
    evidence: dict[str, Any],
    holds: bool,  # noqa: FBT001
) -> None:
    assert (Matcher(read(entry("A", pattern))).first_match(Evidence(**evidence)) is not None) is holds


def test_the_first_rule_wins_by_its_first_pattern_that_holds_wherever_in_the_log_that_is() -> None:
    rules = read(
        entry("First", {"userLogRegex": "none"}, {"userLogRegex": "late"}, {"userLogRegex": "early"}),
        entry("Second", {"userLogRegex": "early"}),
    )
    found = match(rules, user_log=b"early\nlate\n")
    assert (found.rule.phrase, found.user_match) == ("First", "late")
    assert match(rules[::-1], user_log=b"early\nlate\n").rule.phrase == "Second"


def test_a_match_says_where_it_is_and_what_it_is_and_long_ones_are_cut() -> None:
    rules = read(entry("A", {"userLogRegex": "é+", "platformLogRegex": "x(y)"}))
    found = match(rules, user_log=b"\xff\n" + "é".encode() * 5000, platform_log=b"wxyz")
    assert (found.platform_match, found.platform and found.platform.start) == ("xy", 1)
    assert found.user_match == "é" * 1024
    assert found.trigger == "rule A (entry 1 of spec.yaml): userLogRegex é+, platformLogRegex x(y)"


def test_patterns_that_are_too_much_for_one_pass_are_searched_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patterns = [f"error {number} [a-z]*{number}" for number in range(300)]
    text = b"error 7 abc7 error 299 299 error 5 abc7".ljust(100_000)
    span, one_by_one = regex.span, []

    def counted(pattern: str, text: bytes) -> tuple[int, int] | None:
        one_by_one.append(pattern)
        return span(pattern, text)

    monkeypatch.setattr(regex, "span", counted)
    assert regex.Expressions(patterns).found(text) == {patterns[7], patterns[299]}
    assert not one_by_one
    with monkeypatch.context() as too_large:
        too_large.setattr(regex, "_MEMORY", 3000)
        assert regex.Expressions(patterns).found(text) == {patterns[7], patterns[299]}
    assert len(one_by_one) == 300
    # What the binding gives where the memory ends during the pass.
    monkeypatch.setattr("re2.Set.Match", lambda *_: None)
    assert regex.Expressions(patterns).found(text) == {patterns[7], patterns[299]}
    assert len(one_by_one) == 600


PIECES = st.sampled_from(
    ["a", "b", "ab", ".", "a*", "(a|b)", "[^a]", "^", "$", "\\d", "é", "\\n", "(?i)A", "x{0,3}"]
)
EXPRESSIONS = st.lists(PIECES, min_size=1, max_size=4).map("".join)
TEXTS = st.lists(
    st.sampled_from([b"a", b"b", b"1", b"\n", b"\xff", "é".encode(), b"\xc3", b"\0", b"x"]), max_size=20
).map(b"".join)


@given(st.lists(EXPRESSIONS, max_size=6), TEXTS)
def test_one_pass_finds_what_searching_one_by_one_finds(expressions: list[str], text: bytes) -> None:
    valid = [each for each in dict.fromkeys(expressions) if regex.fault(each) is None]
    text = matching.searchable(text)
    one_by_one = {each for each in valid if regex.span(each, text)}
    assert {*regex._found(tuple(valid), text)} == regex.Expressions(valid).found(text) == one_by_one


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = st.sampled_from(
        ["{}{}", "(?:{}|{})", "(?:{})?{}", "({})+{}", "(?:{}){{0,2}}{}", "(?i:{}){}", "[^{}]{}"]
    )
    return st.builds(str.format, forms, parts, parts)


@given(
    st.recursive(
        st.sampled_from(["abc", "word", "a", "é€é", "[ab]", r"\.\.\.", r"\d", "^", "."]), larger, max_leaves=6
    ),
    st.data(),
)
def test_each_match_has_one_of_the_literals_of_its_expression(expression: str, data: st.DataObject) -> None:
    assume(regex.fault(expression) is None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a set in a set may mean another thing to later versions
        text = data.draw(st.from_regex(expression))
    found = literals(expression)
    if found and regex.span(expression, text.encode()):
        assert any(each in text for each in found)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("RuntimeError: no", ["RuntimeError: no"]),
        (r"(?m)^Error: \S+ is not there$", [" is not there"]),
        ("(?:abc|defg) x", ["abc", "defg"]),
        ("(?:abc)?x(?:abcd){0,2}(?:words)+", ["words"]),
        ("(?i:abcdef)(?:ab|cdef)", []),
        ("(?i)abcdef", []),
        (r"\d+\z", []),
        (r"\pN+abcd", []),
        ("(?im)ABCDEF", []),
        ("[[:alpha:]]foobar", []),
        (r"C:\\zfoo bar", []),
        ("", []),
    ],
)
def test_literals_are_what_tells_most(expression: str, expected: list[str]) -> None:
    assert literals(expression) == expected


@given(st.lists(st.lists(EXPRESSIONS, min_size=1, max_size=3), max_size=4), TEXTS)
def test_the_winner_is_the_first_in_order_that_a_naive_search_finds(
    expressions: list[list[str]], text: bytes
) -> None:
    entries = [
        entry(str(number), *({"userLogRegex": each} for each in several))
        for number, several in enumerate(expressions)
    ]
    rules, _ = read_rules(entries, "spec.yaml")
    naive = (
        rule.phrase
        for rule in rules
        for pattern in rule.patterns
        if regex.span(str(pattern.user_log), matching.searchable(text))
    )
    found = Matcher(rules).first_match(Evidence(user_log=text))
    assert (found.rule.phrase if found else None) == next(naive, None)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_whatever_bytes_logs_hold_the_shipped_rules_can_be_tried(user: bytes, platform: bytes) -> None:
    SHIPPED.first_match(Evidence(exit_code=1, user_log=user, platform_log=platform))


SHIPPED = Matcher(shipped_rules())


def test_all_bytes_and_a_line_of_a_megabyte_can_be_searched() -> None:
    rules = read(entry("A", {"userLogRegex": "(a+)+$"}), entry("B", {"userLogRegex": "end"}))
    assert match(rules, user_log=ANY_BYTES * 100 + b"a" * 1_000_000 + b"b end").rule.phrase == "B"


def test_the_shipped_rules_have_no_fault() -> None:
    rules, found = read_rules(shipped_entries(), "exit-spec.yaml")
    assert not found
    shipped = [
        rule._replace(patterns=tuple(each._replace(literals=()) for each in rule.patterns))
        for rule in shipped_rules()
    ]
    assert rules == shipped, "exit-spec.json is made of it by tools/reference.py"


PLATFORMS: dict[str, Any] = {"exitCode": None, "userLogRegex": "dropout", "gpuInfo": {}}


def test_the_platforms_own_forms_are_read_as_they_are() -> None:
    description = {
        "code": 225,
        "phrase": "CudnnDropout",
        "issuer": "USER_CONTAINER",
        "causer": "USER_SUBMITTED_JOB",
        "type": "USER_FAILURE",
        "stage": "RUNNING",
        "behavior": "PERMANENT",
        "reaction": "NEVER_RETRY",
        "reason": "  cuDNN\n needs something. ",
        "repro": ["a script"],
        "solution": ["Do this", "or that"],
    }
    runtime = {"containerExitCode": 225, "patterns": [PLATFORMS]}
    platforms_own = {"code": -7210, "phrase": "ContainerNotAvailable", "issuer": "K8S"}
    (rule,) = read(description, platforms_own, runtime)
    assert (rule.code, rule.phrase, rule.behavior) == (225, "CudnnDropout", "PERMANENT")
    assert (rule.reason, rule.solution) == ("cuDNN needs something.", ("Do this", "or that"))
    assert (rule.number, rule.source) == (3, "spec.yaml")
    assert rule.patterns == (Pattern(user_log="dropout"),)


def test_what_a_rule_does_not_say_has_a_default() -> None:
    (rule,) = read({"containerExitCode": 7, "patterns": [{}], "x-of-somebody": 1})
    assert (rule.phrase, rule.behavior, rule.reason, rule.solution) == ("ExitCode7", "UNKNOWN", "", ())
    (rule,) = read(entry("A", {}, solution="one text", becauseOfPeer=True))
    assert (rule.solution, rule.because_of_peer) == (("one text",), True)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (7, "entry 1: expected a mapping, found 7; the entry is ignored"),
        ("text", "entry 1: expected a mapping, found 'text'; the entry is ignored"),
        (
            {"patterns": [{}]},
            "entry 1: containerExitCode: expected a whole number from 1 to 255, found nothing",
        ),
        (
            entry("A", {}, code=0),
            "entry 1 (A): containerExitCode: expected a whole number from 1 to 255, found 0",
        ),
        (
            entry("A", {}, code=256),
            "entry 1 (A): containerExitCode: expected a whole number from 1 to 255, found 256",
        ),
        (
            {"code": "226", "patterns": [{}]},
            "entry 1: containerExitCode: expected a whole number from 1 to 255, found '226'",
        ),
        (
            {"code": True, "patterns": [{}]},
            "entry 1: containerExitCode: expected a whole number from 1 to 255, found True",
        ),
        (
            {"code": [1], "patterns": [{}]},
            "entry 1: containerExitCode: expected a whole number from 1 to 255, found nothing",
        ),
        (
            {"code": 1, "phrase": 5, "patterns": [{}]},
            "entry 1: phrase: expected text, found 5; the entry is ignored",
        ),
        (entry("A", {}, reason=[1]), "entry 1 (A): reason: expected text, found a list"),
        (
            entry("A", {}, solution={}, behavior="?"),
            "entry 1 (A): behavior: expected one of TRANSIENT, PERMANENT, UNKNOWN, found '?'",
        ),
        (entry("A", {}, solution=["a", 5]), "entry 1 (A): solution[1]: expected text, found 5"),
        (
            entry("A", {}, atEnd=1),
            "entry 1 (A): atEnd: expected true or false, found 1; the entry is ignored",
        ),
        (entry("A", {}, becauseOfPeer="x"), "entry 1 (A): becauseOfPeer: expected true or false, found 'x'"),
        (
            {"code": 1, "patterns": "x"},
            "entry 1 (ExitCode1): patterns: expected a list of patterns, found 'x'",
        ),
        (entry("A", "x"), "entry 1 (A): patterns[0]: expected a mapping, found 'x'; the pattern is ignored"),
        (
            entry("A", {"userLogRegexp": "x"}),
            "entry 1 (A): patterns[0]: unknown field 'userLogRegexp'; known: exit",
        ),
        (
            entry("A", {"userLogRegex": None}),
            "entry 1 (A): patterns[0].userLogRegex: expected a regular expression, found nothing",
        ),
        (
            entry("A", {"exitCode": "1"}),
            "entry 1 (A): patterns[0].exitCode: expected a whole number, found '1'",
        ),
        (entry("A", {"oomKilled": 1}), "entry 1 (A): patterns[0].oomKilled: expected true or false, found 1"),
        (
            entry("A", {"outcome": "bad"}),
            "entry 1 (A): patterns[0].outcome: expected one of failed, setup-failed, timeout, found 'bad'",
        ),
        (entry("A", {"gpuInfo": [1]}), "entry 1 (A): patterns[0].gpuInfo: expected a mapping, found a list"),
        (
            entry("A", {"gpuInfo": {"x": 1}}),
            "entry 1 (A): patterns[0].gpuInfo: unknown field 'x'; known: nvidia",
        ),
        (
            entry("A", {"gpuInfo": {"nvidiaXid": ["a"]}}),
            "patterns[0].gpuInfo.nvidiaXid[0]: expected a whole number, found 'a'",
        ),
        (
            entry("A", {"userLogRegex": "a(b"}),
            "entry 1 (A): patterns[0].userLogRegex: invalid RE2 expression 'a(b': missing ): a(b",
        ),
        (
            entry("A", {"platformLogRegex": r"(?=x)"}),
            "entry 1 (A): patterns[0].platformLogRegex: invalid RE2 expression '(?=x)'",
        ),
        (entry("A", {"userLogRegex": r"\Z"}), "invalid escape sequence"),
    ],
)
def test_what_is_wrong_with_an_entry_is_told_and_the_others_hold(bad: Any, message: str) -> None:
    good = entry("Good", {"exitCode": 1})
    rules, found = read_rules([bad, good], "spec.yaml")
    assert [rule.phrase for rule in rules] == ["Good"]
    (fault,) = map(str, found)
    assert fault.startswith("spec.yaml: entry 1")
    assert message in fault


def test_of_a_rule_only_the_pattern_that_is_wrong_is_left_out() -> None:
    both = entry("A", {"userLogRegex": "("}, {"userLogRegex": "b"})
    rules, found = read_rules([both], "spec.yaml")
    assert [pattern.user_log for pattern in rules[0].patterns] == ["b"]
    assert len(found) == 1
    assert found[0].path == ("patterns", 0, "userLogRegex")


@pytest.mark.parametrize("spec", [None, {}, "text", 5, {"code": 1}])
def test_what_is_no_list_is_told_once(spec: Any) -> None:
    rules, found = read_rules(spec, "spec.yaml")
    assert not rules
    assert re.fullmatch(r"spec.yaml: expected a list of entries, found .*", str(found[0]))
    assert len(found) == 1


KEYS = st.sampled_from(["code", "phrase", "patterns", "exitCode", "userLogRegex", "gpuInfo", "solution"])
SCALARS = st.none() | st.booleans() | st.integers(-1, 300) | st.text(max_size=4)


def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner | st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)


ANYTHING = deeper(deeper(deeper(deeper(SCALARS))))


@given(ANYTHING)
def test_any_data_can_be_read_as_a_spec_and_what_comes_of_it_can_be_tried(data: Any) -> None:
    rules, _ = read_rules(data, "spec.yaml")
    Matcher(rules).first_match(Evidence(exit_code=1, user_log=b"text"))
