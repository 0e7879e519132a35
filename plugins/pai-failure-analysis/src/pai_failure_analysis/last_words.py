"""The last output of a program: an error that it survived is not why it failed.

A script can expect that a command fails, and a program can catch an error, say it and go on. What it prints
then tells so, as only reports and further errors follow an error that ends a program; and so does an exit
code that the command which said it never has.
"""

import re

MOST_BYTES = 256 * 1024
"""Maximum bytes at the end of a log that are searched for the last output."""

_FIRST_OF_OTHERS = 3
_FIRST_OF_SHELLS = 126
"""The range of codes of a program's own: common tools end with 1 or 2, shells with 126 and more."""

_MANY_LINES = 20
"""Lines at the end of a log, none of them about an error, that a program prints only if it goes on."""

LINE_OF_ERROR = re.compile(
    rb"""
    \s                                            # of a traceback or a report
    | [^A-Za-z\x80-\xff\n]*$                      # lines and the like
    | .*(?i:fail|error|exception|traceback|fatal|abort|kill|terminat|exit|crash|signal|core\ dumped|cannot
        |could\ not|non-zero|stack\ trace|unable|denied|invalid|refus|no\ such|not\ found|time[d ]\ ?out
        |stopp|interrupt|shut(?:ting)?\ ?down|clean|warn|low\ on\ resource|evict|preempt|cancel
        |out\ of\ memory)
    """,
    re.VERBOSE,
)
"""A line of an error or about one."""

_NOT_ITS_OWN = re.compile(
    rb"""
    \+\s                                         # of the shell (set -x)
    | [^\s:]+:(?:\s|$)                           # name: message
    | \[notice\] | [0-9+]+\ (?:records|bytes)\b
    | Complete\ log(?:\(s\))?:\ | Work\ dir:$               # of Snakemake, of Nextflow
    | (?=(?:\S*[/.])?Dockerfile)\S+:\d+$ | \#\#\[(?:end)?group\]
    | (?:See|Run)\ 'docker\ [^\n]*--help'
    | The\ full\ traceback\ has\ been\ saved\b | Please\ also\ report\ this\b  # of Sphinx
    | A\ bug\ report\ can\ be\ filed\b
    | npm\ ERR! | info\ Visit\ | \d+\ actionable\ task | \[INFO\]\ (?:-*$|Total\ time|Finished\ at)
    | \w[\w.]*\+0x[\da-f]+/0x | Hardware\ name: | Call\ [Tt]race: | Mem-Info: | Tasks\ state\b  # of Linux
    | Node\ \d+\ (?:active_anon|DMA|Normal|Movable|hugepages_)
    | Resource\ usage\ summary: | The\ output\ \(if\ any\)  # of LSF
    | \[?\w{3}\ \w{3}\ [\ \d]\d\ [\d:]{8}\ (?:[AP]M\ )?(?:\w{1,5}\ )?\d{4}\]?$  # as date prints it
    | (?:real|user|sys)\s+\d+(?:m[\d.]+s|[.]\d+s?)$ | logout$
    | [\d:.\ -]*Flushing\ logs | [IF]\d{4}\ [\d:.]+\ +\d+\ (?:launcher_v2|main)\.go:  # of Metaflow, Kubeflow
    | [^\n]{0,40}sagemaker-(?:training-toolkit|containers)\ (?:INFO|ERROR)
    | ExitCode\ \d | ErrorMessage\ " | Command\ "  # of SageMaker
    | [\d.]+user\ [\d.]+system\ | \d+inputs\+\d+outputs\ | \[Pipeline\]\ | Finished\ Step\ \#
    | [Jj]ob\ (?:finished|ended|completed)\ (?:at|on)\b
    | (?:\(\S{1,80}\)\ )?\[?[\w.-]{1,80}@[\w.-]{1,80}[^\n]{0,80}(?<!\d)[\#$%>]\s*$ | PS\ [A-Z]:[^\n]*>\s*$
    | .*(?:%\||NCCL\ INFO)                       # a progress bar, which is drawn again at the end
    """,
    re.VERBOSE,
)
"""A line that a program which continues hardly writes, beside lines of errors: of tools, or a prompt."""

_TOOL = re.compile(
    rb"(?:(?:\S*/)?(?:cat|chmod|chown|cp|dd|head|install|ln|mkdir|mktemp|mv|rm|rmdir|tail|tee|touch|truncate"
    rb"|(?:ba|da|a|z)?sh)|\S+\.sh): |\S+: (?:line )?\d+: [^\s:]+: (?:command )?not found$",
    re.MULTILINE,
)
"""A message of a tool or shell whose exit code after it is 1 or 2, unless a script continues."""

TRACEBACK = b"Traceback (most recent call last):"


def begin_of_end(log: bytes) -> int:
    """Return the index of the line in which the last `MOST_BYTES` of a log begin."""
    return log.rfind(b"\n", 0, max(0, len(log) - MOST_BYTES)) + 1


def last_words(log: bytes) -> int:
    """Return the index after which a program printed only reports, errors and the like."""
    start = max(0, len(log) - MOST_BYTES)
    end = len(log)
    while end > start:
        begin = log.rfind(b"\n", start, end - 1) + 1 or start
        line = log[begin:end].rstrip(b"\r\n").rpartition(b"\r")[2]
        if line and not LINE_OF_ERROR.match(line) and not _NOT_ITS_OWN.match(line):
            return end
        end = begin
    return start


def lived_with(exit_code: int | None, log: bytes, first: int, last: int | None, *, went_on: bool) -> bool:
    """Return whether a program survived a message, so that it is not why it ended with this exit code.

    `first` is the index of the message in the log, `last` its index in the last words; None if it is not
    there. `went_on` is whether it is not in the lines of `since_it_went_on`, and there are some.
    """
    if exit_code == 1 and TRACEBACK in log:
        return False  # as by an exception that nobody caught
    if exit_code == 1 and not is_of_tool(log, first):
        return last is None and went_on
    if last is None:
        return True
    has_own_code = exit_code is not None and _FIRST_OF_OTHERS <= exit_code < _FIRST_OF_SHELLS
    return has_own_code and is_of_tool(log, last)


def since_it_went_on(log: bytes) -> bytes:
    """Return the last lines of a log if they are so many that only a program that goes on prints them, and
    none of them is about an error; empty otherwise.
    """
    said: list[bytes] = []
    for line in filter(None, reversed(log[-MOST_BYTES:].split(b"\n"))):
        if LINE_OF_ERROR.match(line) or _NOT_ITS_OWN.match(line):
            return b""
        said.append(line)
        if len(said) == _MANY_LINES:
            return b"\n".join(reversed(said))
    return b""


def is_of_tool(log: bytes, index: int) -> bool:
    """Return whether the line at a byte index is a message of a common tool or shell."""
    return _TOOL.match(log, log.rfind(b"\n", 0, index) + 1) is not None
