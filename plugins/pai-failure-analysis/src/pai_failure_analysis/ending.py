"""Where a log begins to say why its program ended: what the program had survived before is not why.

An exception that nobody caught decides, unless it only passes on what happened elsewhere: in another process,
on the GPU, on the way to a peer. Then all of the log may have the cause.

The log is the task's: whatever it has, each expression takes time in proportion to it. A repeated group takes
a hundred bytes each time, so such repeats are limited: to 5,000 lines, more than a traceback at Python's
limit of recursion has.
"""

import re

from pai_failure_analysis.inner_messages import written_out
from pai_failure_analysis.last_words import LINE_OF_ERROR, MOST_BYTES, TRACEBACK, begin_of_end, last_words

KILLED = (137, 143)
"""Exit codes of programs that were ended from outside, whatever they had survived before."""

_PASSED_ON = re.compile(
    rb"""
    ChildFailedError | CalledProcessError | Process(?:Raised|Exited)Exception | BrokenProcessPool
    | \bRay\w{0,60}Error | ray\.exceptions | SystemExit | KeyboardInterrupt | SignalException
    | (?i:
        [nhrx]ccl | oneccl | c10d | rendezvous | collective | barrier | \bpeer | tcpstore | gloo
        | horovod | \bmpi
        | \bdist(?:backend|network|store)error
        | nixl | \buc[xp]_ | libfabric | nvshmem | unreachable
        | cuda | cudnn | cublas | xla | jaxruntime | unavailable | internal
        | hip\ error | miopen | npu\ function\ error | synstatus | habana | ur_result
        | possibly,\ this\ master\ has\ restarted | failed\ to\ recv | stop_waiting | client\ socket
        | remote\ process | \bgcs\b | raylet
        | connection | broken\ pipe | eoferror | time[d ]?\ ?out | worker | subprocess | child
        | exit(?:ed)?\ (?:code|status|with) | error\ code\ is | returned\ a\ failure | non-?zero
        | killed | signal | core\ dumped
        | initialization\ failed | root\ cause | see\ (?:above|stack|log) | via\ ssh
    )
    """,
    re.VERBOSE,
)
"""An exception that passes on what happened elsewhere."""

_LONGEST_LINE = 2048
"""Bytes of a line with an exception that are searched for what it passes on."""

_IGNORED = re.compile(
    rb"^Exception ignored in:? [^\n]*\n(?:(?:Traceback[^\n]*|[ \t][^\n]*)?\n){0,5000}[\w.]+(?::[^\n]*)?$",
    re.MULTILINE,
)
"""An exception that Python has told and forgotten, as it came from a finalizer."""


def _exception_of_joined_lines(line: bytes) -> bytes:
    if line.count(_FRAME) < 2 or not (raised := [*_RAISED.finditer(line, line.rindex(_FRAME))]):  # noqa: PLR2004
        return line
    return line[raised[-1].end() :]


_CAUSED = b"The above exception was the direct cause of the following exception:"
_DURING = b"During handling of the above exception, another exception occurred:"

_WRAPPED = re.compile(
    rb"^" + re.escape(_CAUSED) + rb"[ ]*\n\s*" + re.escape(TRACEBACK) + rb"\n(?:[ \t][^\n]*\n|\n){0,5000}"
    rb"(?:\w+\.){0,9}(?:DatasetGenerationError|InstantiationException|RayTaskError|TorchRuntimeError"
    rb"|ProcessRaisedException|TuneError|MlflowException)\b[^\n]*",
    re.MULTILINE,
)
"""A traceback whose exception only says in which library another one was raised."""


def without_wrappers(log: bytes) -> bytes:
    """Return a plain log with empty lines in the place of exceptions that libraries put around the cause."""
    if _CAUSED not in log:
        return log
    return _WRAPPED.sub(lambda found: b"\n" * found[0].count(b"\n"), log)


_OF_HYDRA = re.compile(
    rb"^[^\n]{0,80}Error (?:in call to|locating|loading|getting|instantiating) [^\n]{1,200}:\n"
    rb"(?=(?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception)\(|ImportError: )"
    rb"(?!TypeError[^\n]* got an unexpected keyword argument )([^\n]*)$",
    re.MULTILINE,
)
"""What Hydra says instead of the exception of what it calls, whose ``repr`` is the second line, but for
a setting that nobody knows.
"""


def without_hydra(log: bytes) -> bytes:
    """Return a plain log with an exception in the place of how Hydra shows it."""
    return _OF_HYDRA.sub(lambda found: b"\n" + written_out(found[1]), log) if b" target '" in log else log


_NOT_SAVED = re.compile(
    rb"^time=[^\n]* level=error msg=\"cannot save (?:artifact|parameter) [^\n]*$", re.MULTILINE
)
_STEP_FAILED = re.compile(
    rb"^(?:F\d{4} [^\n]{1,80} main\.go:\d+\] failed to execute component: exit status \d+"
    rb"|Error: exit status [1-9]\d*)$",
    re.MULTILINE,
)
"""What Argo says of the outputs of a step, and what it and Kubeflow say of a step that has failed."""


def without_outputs(log: bytes) -> bytes:
    """Return a plain log without what Argo and Kubeflow say of a step because its program has failed."""
    if b"exit status " not in log or not _STEP_FAILED.search(log):
        return log
    return _STEP_FAILED.sub(b"", _NOT_SAVED.sub(b"", log))


_PROGRAM_MISSING = re.compile(
    rb"((?:\A|\n)(?=[^\n]*(?:_execute_child|err_filename\)|posix_spawn))[^\n]*\n(?:[ \t][^\n]*\n){0,3})"
    rb"FileNotFoundError: \[Errno 2\] [^\n:]*: '([^'/\n]+)'"
)
"""How Python says that there is no program of a name, the same as for a file."""


def as_shells_say(log: bytes) -> bytes:
    """Return a plain log in which Python says that a program is missing as shells do.

    Of a working directory that is missing, Python says the same: it stays, if the source line shows it.
    """

    def said(found: re.Match[bytes]) -> bytes:
        has_directory = b"cwd=" in log[max(0, found.start() - _LONGEST_LINE) : found.start()]
        return found[0] if has_directory else found[1] + found[2] + b": command not found"

    return _PROGRAM_MISSING.sub(said, log) if b"FileNotFoundError" in log else log


_CONVERTED = re.compile(rb"(?<=[: \n])\(converted from warning\) ")
"""What R puts before a warning that is to be an error."""


def without_conversion(log: bytes) -> bytes:
    """Return a plain log with the warnings that R was told to take as errors as errors of their own."""
    return _CONVERTED.sub(b"", log) if b"(converted from warning) " in log else log


_PROBES = (b"conftest.", b"cmTC_", b"/CMakeFiles/CMake", b"testfile.c")
_OF_PROBE = re.compile(
    rb"^[^\n]*(?:\bconftest\.(?:c|cc|cpp|cxx|cu|f|f90)[:(]\d|\bcmTC_\w|/CMakeFiles/CMake(?:Tmp|Scratch)/"
    rb"|\btestfile\.c(?:pp)?:\d)[^\n]*"
    rb"(?:\n(?:[ \t]|[^\s:]+:\(\.text|collect2: |ninja: build stopped)[^\n]*){0,1000}",
    re.MULTILINE,
)
_NO_COMPILER = re.compile(rb"compile a simple test program|compiler cannot (?:create|compile)")
"""The names that configure, CMake and Meson give to their test programs, the errors that compilers print
for such a program, and the messages that the compiler itself does not work. With one of these messages, the
errors in test programs are kept, because they say why.
"""


def without_probes(log: bytes) -> bytes:
    """Return a plain log with the errors in test programs of build systems replaced by empty lines."""
    if not any(each in log for each in _PROBES) or _NO_COMPILER.search(log):
        return log
    return _OF_PROBE.sub(lambda found: b"\n" * found[0].count(b"\n"), log)


_CANCELLED = b" CANCELLED AT "
_KILLED_WITH_STEP = re.compile(
    rb"^srun: error: \S+: tasks? [\d,-]+: (?:Killed|Terminated)[^\n]*$", re.MULTILINE
)
"""What srun says of the tasks that Slurm kills with their step."""


def without_cancelled(log: bytes) -> bytes:
    """Return a plain log without the ends of tasks that followed from the cancelling of their Slurm step."""
    at = log.find(_CANCELLED)
    return log if at < 0 else log[:at] + _KILLED_WITH_STEP.sub(b"", log[at:])


_INDENTED = re.compile(rb"\n[ \t]+(?=(?:\w+\.){0,9}[A-Z]\w*(?:Error|Exception)(?::[^\n]*)?\s*\Z)")
"""An exception as the last line of a log that somebody has indented."""


_FRAME = b'", line '
_RAISED = re.compile(rb"[ \t](?=(?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception)\b)")


_LAST_LINE = 2048
"""Bytes at the end of a log that have its last line."""

_RAISING = re.compile(
    rb"(?<=\n)[ \t]+raise (?:\w{1,80}\.){0,9}([A-Z]\w{0,80}(?:Error|Exception))\b"
    rb"(?:\([rf]?(?:\"([^\"\n]*)\"|'([^'\n]*)'))?[^\n]{0,999}(\s*)\Z"
)
"""The end of a log that was cut off before the exception that it raises."""


_UNFINISHED = re.compile(
    rb"(?:" + re.escape(_CAUSED) + rb"|" + re.escape(_DURING) + rb")\s*(?:"
    + re.escape(TRACEBACK) + rb"[ ]*(?:\n[ \t][^\n]*|\n){0,5000})?\Z"
)  # fmt: skip
"""The end of a log that was cut off within the traceback of a further exception."""


def flush(log: bytes) -> bytes:
    """Return a log whose exceptions begin a line and end it, although somebody joined, indented or cut it."""
    begin = begin_of_end(log)
    chained = max(log.rfind(_CAUSED, begin), log.rfind(_DURING, begin))
    if chained >= 0 and (cut := _UNFINISHED.match(log, chained)):
        log = log[:chained] + b"\n" * cut[0].count(b"\n")
    if _FRAME in log[begin:]:
        lines = log[begin:].split(b"\n")
        log = log[:begin] + b"\n".join(map(_exception_of_joined_lines, lines))
    if raising := _RAISING.search(log, max(0, len(log) - _LAST_LINE)):
        said = raising[2] or raising[3] or b""
        log = log[: raising.start()] + raising[1] + b": " + said + raising[4]
    at = log.rstrip().rfind(b"\n")
    found = _INDENTED.match(log, at) if at >= 0 and TRACEBACK in log[-MOST_BYTES:] else None
    return log[: at + 1] + log[found.end() :] if found else log


def without_ignored(log: bytes) -> bytes:
    """Return a plain log with empty lines in the place of exceptions that Python ignored."""
    if b"Exception ignored in" not in log:
        return log
    return _IGNORED.sub(lambda found: b"\n" * found[0].count(b"\n"), log)


def end_of_program(log: bytes, exit_code: int | None) -> int:
    """Return the index in a plain log from which it says why its program ended; 0 if all of it may do so."""
    at = last_words(log)
    if exit_code in KILLED:
        return at
    exception, end = b"", len(log)
    while end > at:
        begin = log.rfind(b"\n", at, end - 1) + 1 or at
        start = log.rfind(TRACEBACK, begin, end)
        if start >= 0 and exception:
            if not _PASSED_ON.search(exception):
                return _with_lines_of_errors(log, at, start)
            exception = b""  # nor does it decide for the tracebacks above, which are indented
        if not log[begin : begin + 1].isspace():
            exception = log[begin : min(end, begin + _LONGEST_LINE)]
        end = begin
    return 0


_EXCEPTION_LINE = re.compile(rb"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?:: [^\n]*)?$", re.MULTILINE)
"""The line with an exception, whether or not its traceback is there."""


def ends_by_own_exception(log: bytes) -> bool:
    """Return whether a plain log without a whole traceback ends with an exception of the program itself."""
    return any(
        not _PASSED_ON.search(found[0][:_LONGEST_LINE])
        for found in _EXCEPTION_LINE.finditer(log, last_words(log))
    )


_OF_RANK = re.compile(
    rb"(?m)^(\[(?:rank|default)\d+\]|\[\d+(?:,\d+)?\]<std(?:out|err)>"
    rb"|\([^()\n]{1,80} pid=\d+[^)\n]*\)|\d{1,5}):? "
)
"""What launchers put before a line to say whose it is: torchrun, Open MPI, Ray, srun."""


def end_of_a_rank(log: bytes, lines: bytes, exit_code: int | None) -> bytes:
    """Return what the rank says in the plain lines of a log that says first why it ended; empty if none does.

    What other ranks printed after it is not what this rank did after its error: their lines are left empty.
    """
    start = log.find(b"\n", len(log) - MOST_BYTES) + 1 if len(log) > MOST_BYTES else 0
    ranks: dict[bytes, list[int]] = {}
    if not _OF_RANK.search(log, start):
        return b""
    above = log.count(b"\n", 0, start)
    for number, line in enumerate(log[start:].split(b"\n"), above):
        if found := _OF_RANK.match(line):
            ranks.setdefault(found[1], []).append(number)
    if len(ranks) == 1:
        return b""
    every = lines.split(b"\n")
    said: list[int] = []
    for numbers in ranks.values():
        own = b"\n".join(every[number] for number in numbers)
        at = end_of_program(own, exit_code)
        begin = own.count(b"\n", 0, at)
        if at and (not said or numbers[begin] < said[0]):
            said = numbers[begin:]
    kept = {*said}
    return b"\n".join(line if number in kept else b"" for number, line in enumerate(every)) if kept else b""


def _with_lines_of_errors(log: bytes, first: int, start: int) -> int:
    """Return the index, from `first`, of the first of the lines about errors that end at `start`."""
    while start > first:
        begin = log.rfind(b"\n", 0, start - 1) + 1
        if not LINE_OF_ERROR.match(log, begin, start):
            break
        start = begin
    return start
