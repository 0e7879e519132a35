"""A log as its program wrote it: without colours, and without what was put before its lines on the way.

Launchers put a rank before each line, container engines a name, log collectors a time, and loggers a time,
a name and a level. The number of lines stays, so that a line of the result is the line of the same number of
the log. A logger's prefix stays if its level is below error: such a line mentions an error and is none.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from pai_failure_analysis import regex
from pai_failure_analysis.last_words import TRACEBACK, last_words

_COLOURS = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
_REDRAWN = re.compile(rb"(?<![^\r\n])(?=[^\r\n]*\r(?!\n))[^\r\n]*?%\|[^\r\n]*\r")
"""A progress bar that the program has drawn again in the same line."""

_OF_DOCKER = b'\n{"log":"'
_LINE_OF_DOCKER = re.compile(rb'(?m)^\{"log":"[^\n]*\}\r?$')
"""How lines of Docker's log files begin, and a whole one: JSON with the text, its stream and a time."""

_INDENTED_BY = (
    (b"  ", b"\nCommand error:", re.compile(rb"\nCommand error:(?:\n(?:  [^\n]*)?){1,5000}")),
    (
        b"  ",
        b"\n  traceback : Traceback",
        re.compile(rb"\n  traceback : Traceback[^\n]*(?:\n(?:  [^\n]*)?){1,5000}"),
    ),
    (b"    ", b"\nMessage:\n\n    ", re.compile(rb"\nMessage:\n(?:\n(?: {4}[^\n]*)?){1,1000}")),
)
"""Blocks that tools indent: the end of a task's standard error by Nextflow, what torchrun says of a rank, and
a task's exception by Flyte; each with the spaces, and what shows that a log may have it.
"""

_OF_BUILDKIT = re.compile(rb"\n-{6}\n > \[[^\n]*(?:\n(?!-{6})[^\n]*){1,5000}")
_SECONDS = re.compile(rb"\n\d{1,6}\.\d{1,4} ")
"""The output of a step that failed, as BuildKit repeats it, and what it puts before each line."""

_OF_LSF = re.compile(
    rb"\n-{60}\nSender: LSF System [^\n]*(?:\n(?!The output \(if any\))[^\n]*){1,200}"
    rb"\n[^\n]*above this job summary\."
)
_HOW_IT_ENDED = (b"TERM_", b"Exited with ")
"""What LSF adds to the output of a job: the job's script is among it, and lines that tell how it ended."""

_SAMPLE = 64 * 1024
"""Bytes at each end of a log that show how its lines begin."""

_MOST_NAMES = 256
_LEAST_LINES = 4
"""Maximum number of different names before the lines of a log, and minimum number of lines for each."""

_OF_LAUNCHER = re.compile(rb"(?:srun|slurmstepd|mpirun|prterun|flux-job|pdsh@[\w.-]+): ")
"""A line of the launcher itself, which has no prefix."""

_TIME = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?Z| ?[+-]\d\d:?\d\d)?"
_LEVEL = rb"(?:ERROR|CRITICAL|FATAL|error|critical|fatal)"
_RELAYING = (
    rb"(?:subprocess|bash|docker|pod_manager|process_utils|logging_mixin|spark_submit|ssh|beam"
    rb"|kubernetes_pod)"
)
"""Modules of Airflow that log the lines of a program."""

# All begin with the end of the line before: that is fast to search for.
_OF_LAUNCHERS = {
    shown: re.compile(rb"\n" + expression)
    for shown, expression in (
        (r"\]: ", rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} [^\s:\[]{1,80}\[\d+\]: "),
        (r"\[rank", rb"\[rank\d+\]: ?"),
        (r"\[default", rb"\[default\d+\]: ?"),
        (r"\]<std", rb"(?:\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[\d+(?:,\d+)?\]<std(?:out|err)>: ?"),
        (r" pid=", rb"\([^()\n]{1,80} pid=\d+(?:, ip=[\d.:a-f]+)?\) "),
        (r"\[pod/", rb"\[pod/[^\s\]]{1,300}\] "),
        (r"\+ Exception Group Traceback", rb" +[|+] "),
        (r"\n#", rb"#\d+ \d+\.\d+ ?"),
        (r"\nStep #", rb"Step #\d+(?: - \"[^\"\n]{1,80}\")?: "),
        (r"\nE   ", rb"E {3}(?: {4}(?=(?:\w{1,80}\.){0,9}_?[A-Z]\w{0,80}(?:Error|Exception)\b))?"),
        (r"\nException has occurred: ", rb"Exception has occurred: "),
        (r"\nErrorMessage ", rb"ErrorMessage \"(?=\w)"),
        (
            r"\n(?:FAILED|ERROR) \S+\.py",
            rb"(?:FAILED|ERROR) \S{1,400}\.py\S{0,400}(?: [^\n]{0,80}\])? - (?=\S)",
        ),
        (r"\n(?:Attaching to |[\w.-]+ exited with code \d)", rb"[\w.-]{1,80} {1,20}\| ?"),
        (r"\n[\w.-]+[_-]\d+ +\|", rb"[\w.-]{1,80}[_-]\d{1,4} {1,20}\|(?: |(?=\n))"),
        (r"%\|", rb"[^\n|%]{0,80}\d%\|[^|\n]{0,200}\|[^\n\[]{0,40}\[[^\]\n]{0,80}\](?=[^\s,])"),
    )
}
"""Prefixes of journald, torchrun, Open MPI and Horovod, Ray, kubectl, exception groups, BuildKit, Cloud
Build, pytest, a debugger, SageMaker, docker compose, and a progress bar; each by what shows that a log may
have it, which all together are searched for in one pass.
"""

_MAY_HAVE = regex.Expressions(_OF_LAUNCHERS)

_OF_LOGGERS = tuple(
    re.compile(rb"\n" + expression)
    for expression in (
        rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?",
        rb"\[?" + _TIME + rb"\]? ?[-|:]? ?"
        rb"(?!ERROR \d{3}: |FATAL: {3}|fatal: |[\w./+:-]{1,80}: (?:fatal )?error(?:: | \w))"  # of tools
        rb"(?:(?!WARN|INFO|DEBUG)[\w.:/<>-]{1,80} ?[-|:] ?)??\[?" + _LEVEL
        + rb"\]? *[-|:]? (?:[\w.:<>]{1,100} - )?",
        rb"(?:\[\d{4}-\d\d-\d\d[T,] ?\d\d:\d\d:\d\d[^\]\n]{1,12}\] )?(?:\{[^}\n]{1,80}\} " + _LEVEL + rb" - "
        rb"|\{" + _RELAYING + rb"\.py:\d+\} INFO - (?:\[base\] )?)",
        rb"(?:" + _TIME + rb" ?[-|:]? ?)?(?:[\w.:/-]{1,80} ?[-|:] ?)?\[?INFO\]? ?[-|:]? ?"
        rb"(?:[\w.]{1,80} ?[-:] ?)?(?=\[(?:rank|default)\d+\]: )",
        _TIME + rb" [\w.:-]{1,80} \[\d{1,5}\] ",
        _TIME + rb" \[\d{1,20}/[\w.-]{1,80}/\d{1,20}(?: \(pid \d{1,9}\))?\] ",
        rb"ERROR \d\d-\d\d \d\d:\d\d:\d\d \[[^\]\n]{1,80}\] ",
        _LEVEL + rb":[\w.]{1,80}: ?",
        rb"\[" + _LEVEL + rb"\]:? ",
        rb"I\d{4} [\d:]{8}\.\d{1,6} +\d{1,20} (?:docker|bash|(?:sub)?process)\.py:\d+\] (?:\d+\.\d+ )?",
        rb"(?:\[" + _TIME + rb"\]:?|" + _TIME + rb")(?: |(?=\n))(?!ERROR \d{3}: |[A-Z][a-z]+ - |[-|:#(]"
        rb"|\[(?!(?:\d+,|rank|default)\d+\])|[^\n]{0,120}\b(?:WARN(?:ING)?|INFO|DEBUG|TRACE|NOTICE)\b|(?i:warn(?:ing)?|info|debug|notice)\b)",
    )
)  # fmt: skip
"""Prefixes of log collectors and TPU pods, of loggers that report an error (logging, loguru, vLLM, Airflow,
Metaflow) or relay the lines of a program, and a time alone.
"""

_OF_EACH_LINE = (
    (0.9, re.compile(rb"\n()\d{1,5}: ?(?=\D)")),
    (0.9, re.compile(rb"\n([\w.-]{1,80} {1,20}\| ?)")),
    (1.0, re.compile(rb"\n((?=[^:\n]*\d)[\w.-]{3,253}: ?)")),
    (1.0, re.compile(rb"\n((?!npm error )[a-z0-9][a-z0-9.-]{0,252} [a-z0-9][a-z0-9-]{0,62} )")),
    (0.9, re.compile(rb"\n()[^\n|]{1,80}\|\| ?")),
    (0.9, re.compile(rb"\n()(?:> ?|std(?:err|out): ?|app\[[\w.]{1,40}\]: )")),
    (0.9, re.compile(rb"\n()(?:\d{1,7}\.\d{1,6} |\[ *\d{1,9}(?:\.\d{1,9})?\] ?)")),
)
"""Prefixes that only count where this share of the lines has one: of srun, docker compose, pdsh and stern;
what platforms end with two bars, what is quoted, and the seconds or numbers that builders, the kernel and
trackers count. The group is a name, if there is one.
"""


_BELOW_ERROR = re.compile(
    rb"[^\n]{0,120}\b(?:INFO|DEBUG|WARN(?:ING)?|info|debug|warning)\b[^\n]{0,80}|I\d{4} [^\n]{1,120}\] "
)
_LONGEST_PREFIX = 200
"""A logger's prefix below error, and its maximum bytes."""


def plain(log: bytes) -> bytes:
    """Return a log with the same number of lines, each as its program wrote it."""
    if any(_OF_DOCKER in sample for sample in _samples(b"\n" + log)):
        log = _LINE_OF_DOCKER.sub(_without_json, log)
    if b"\x1b" in log:
        log = _COLOURS.sub(b"", log)
    if b"\r" in log:
        log = _REDRAWN.sub(b"", _without_returns(log))
    text = b"\n" + log
    before = -1
    for _ in range(3):  # a logger's behind a launcher's behind a log collector's
        if len(text) == before:
            break
        before = len(text)
        text = _without_prefix(text)
    text = _without_relay(text)
    if b"\n > [" in text:
        text = _OF_BUILDKIT.sub(lambda block: _SECONDS.sub(b"\n", block[0]), text)
    if b"\nSender: LSF System " in text:
        text = _OF_LSF.sub(_without_script, text)
    for spaces, shown, block in _INDENTED_BY:
        if shown in text:
            text = block.sub(partial(_dedented, spaces), text)
    return text[1:]


def _without_relay(text: bytes) -> bytes:
    """Return a text without a logger's prefix before each line of a traceback, if the program ended with it:
    it is of another program, whose lines the logger relayed.
    """
    at = text.rfind(TRACEBACK)
    begin = text.rfind(b"\n", 0, max(0, at)) + 1
    if not 0 < at - begin <= _LONGEST_PREFIX or not _BELOW_ERROR.fullmatch(text, begin, at):
        return text
    prefix = re.sub(rb"\d+", rb"\\d+", re.escape(text[begin:at]))
    lines = rb"%s%s[ ]*(?:\n%s[ \t][^\n]*){1,5000}\n%s\S[^\n]*"
    found = re.compile(lines % (prefix, re.escape(TRACEBACK), prefix, prefix)).match(text, begin)
    if not found:
        return text
    said = text[:begin] + re.sub(rb"(?m)^" + prefix, b"", found[0]) + text[found.end() :]
    return said if last_words(said) <= begin else text


def _dedented(spaces: bytes, block: re.Match[bytes]) -> bytes:
    return block[0].replace(b"\n" + spaces, b"\n").replace(b"\ntraceback : Traceback", b"\nTraceback")


def _without_script(summary: re.Match[bytes]) -> bytes:
    """Return LSF's summary of a job with empty lines in the place of those that do not tell how it ended."""
    lines = summary[0].split(b"\n")
    return b"\n".join(line if line.startswith(_HOW_IT_ENDED) else b"" for line in lines)


def _without_json(line: re.Match[bytes]) -> bytes:
    """Return the text of a line of one of Docker's log files; other lines as they are."""
    try:
        text = json.loads(line[0])["log"]
    except (ValueError, RecursionError):
        return line[0]
    if not isinstance(text, str):
        return line[0]
    return text.rstrip("\r\n").replace("\n", " ").encode("utf-8", "replace")


def _without_prefix(text: bytes) -> bytes:
    may_have = _MAY_HAVE.found(text)
    for shown, expression in _OF_LAUNCHERS.items():
        if shown in may_have:
            text = expression.sub(b"\n", text)
    for expression in _OF_LOGGERS:
        if any(map(expression.search, _samples(text))):
            text = expression.sub(b"\n", text)
    for share, expression in _OF_EACH_LINE:
        if all(_is_of_each_line(expression, share, sample) for sample in _samples(text)):
            text = expression.sub(b"\n", text)
    return text


def _is_of_each_line(expression: re.Pattern[bytes], share: float, sample: bytes) -> bool:
    lines = sum(bool(line) and not _OF_LAUNCHER.match(line) for line in sample.split(b"\n"))
    names = Counter(match[1] for match in expression.finditer(sample))
    return 0 < len(names) <= min(_MOST_NAMES, lines // _LEAST_LINES) and names.total() >= share * lines


def _without_returns(log: bytes) -> bytes:
    """Return a log without carriage returns if each of its lines ends with one, as from a terminal."""
    lines = log.count(b"\n")
    if lines < _LEAST_LINES or log.count(b"\r\n") != lines:
        return log
    return log.replace(b"\r\n", b"\n").removesuffix(b"\r")


def _samples(text: bytes) -> Iterator[bytes]:
    """Yield the whole lines at both ends of a text, each after the end of the line before."""
    if len(text) <= 2 * _SAMPLE:
        yield text
    else:  # which may begin within a line
        yield text[text.find(b"\n", 1) : text.rfind(b"\n", 0, _SAMPLE)]
        yield text[text.find(b"\n", len(text) - _SAMPLE) :]
