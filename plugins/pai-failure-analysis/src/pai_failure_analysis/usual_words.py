"""What usually goes wrong, in any program's words, as Python says it: the rules know these words.

Every language and library tells the system's errors, the answers of servers and the like in its own way:
``upload failed: connection refused``, ``could not sync (403 Forbidden)``.
"""

import re

_OF_SYSTEM = {
    words.lower(): b"OSError: [Errno %d] %s" % (number, words)
    for number, words in (
        (1, b"Operation not permitted"),
        (2, b"No such file or directory"),
        (5, b"Input/output error"),
        (7, b"Argument list too long"),
        (12, b"Cannot allocate memory"),
        (13, b"Permission denied"),
        (16, b"Device or resource busy"),
        (17, b"File exists"),
        (20, b"Not a directory"),
        (21, b"Is a directory"),
        (24, b"Too many open files"),
        (26, b"Text file busy"),
        (27, b"File too large"),
        (28, b"No space left on device"),
        (30, b"Read-only file system"),
        (32, b"Broken pipe"),
        (36, b"File name too long"),
        (37, b"No locks available"),
        (39, b"Directory not empty"),
        (98, b"Address already in use"),
        (101, b"Network is unreachable"),
        (104, b"Connection reset by peer"),
        (107, b"Transport endpoint is not connected"),
        (110, b"Connection timed out"),
        (111, b"Connection refused"),
        (113, b"No route to host"),
        (116, b"Stale file handle"),
        (121, b"Remote I/O error"),
        (122, b"Disk quota exceeded"),
        (-2, b"Name or service not known"),
        (-3, b"Temporary failure in name resolution"),
    )
}
"""What the system's errors are called in any program's messages, and how Python says so."""

_BEFORE = rb"(?:(?:[:(\[=-]|\.) ?[\"'`]?|^[\"'`]?)"
_AFTER = rb"(?=[\"'`]?(?:[.,;:)\]!\"]|\s*$| ?[(\[](?:os error|errno|code)\b))"
"""What stands around such words: the end of what was being done, and of the message."""

_SYSTEM = re.compile(_BEFORE + rb"(?i:(" + b"|".join(map(re.escape, _OF_SYSTEM)) + rb"))" + _AFTER)

_FORBIDDEN = b"HTTP Error 403: Forbidden"
_TOO_MANY = b"HTTP Error 429: Too Many Requests"
_UNAVAILABLE = b"HTTP Error 503: Service Unavailable"

_BEGUN = (
    (rb"(?:api )?rate limit exceeded|too many requests", _TOO_MANY),
    (
        rb"unable to get local issuer|(?:the )?certificate (?:has expired|is not trusted)|self[- ]signed",
        b"ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
    ),
    (rb"(?:ssl|tls) handshake fail(?:ed|ure)", b"ssl.SSLError: [SSL: SSLV3_ALERT_HANDSHAKE_FAILURE]"),
    (rb"(?:checksum|hash|digest) mismatch\b", b"Error: checksum mismatch"),
    (
        rb"(?:the )?disk (?:is )?full|(?:insufficient|not enough|no more) (?:free |disk |storage ){0,3}space",
        _OF_SYSTEM[b"no space left on device"],
    ),
    (
        rb"unexpected token [^\n]{1,20} in json|unexpected end of json input|invalid json\b",
        b"json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ),
    (
        rb"invalid utf-8|(?:stream|file) did not contain valid utf-8",
        b"UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
)
"""How messages begin."""

_WHOLE = (
    (
        (
            rb"(?:HTTP )?(?:unauthorized|access ?denied|authentication failed|invalid "
            rb"(?:credentials|token|api key|username or password)|(?:the )?token (?:has |is )?expired)"
        ),
        _FORBIDDEN,
    ),
    (rb"service (?:temporarily )?unavailable", _UNAVAILABLE),
    (rb"no such host|unknown host", _OF_SYSTEM[b"name or service not known"]),
    (
        rb"i/o timeout|(?:tls handshake|connection|connect) time(?:d )?out|timeout was reached",
        _OF_SYSTEM[b"connection timed out"],
    ),
    (
        rb"context deadline exceeded|(?:the )?(?:(?:read )?operation |request |read |rpc )?timed out",
        b"TimeoutError: timed out",
    ),
    (
        (
            rb"unexpected eof|(?:the )?(?:remote )?(?:connection|server|peer|host|stream) (?:was )?"
            rb"(?:unexpectedly |forcibly )?"
            rb"(?:closed|disconnected|hung up|reset)(?: by [\w ]{1,40}| unexpectedly)?"
        ),
        _OF_SYSTEM[b"connection reset by peer"],
    ),
    (
        (
            rb"no such (?:file|directory)|(?:the )?(?:input |config )?(?:file|path|directory|folder) "
            rb"(?:was |is )?(?:not found|does not exist)"
        ),
        _OF_SYSTEM[b"no such file or directory"],
    ),
    (rb"(?:the )?(?:file|directory|folder) already exists", _OF_SYSTEM[b"file exists"]),
    (rb"address in use", _OF_SYSTEM[b"address already in use"]),
    (rb"command not found", b"sh: x: command not found"),
    (rb"database is locked", b"sqlite3.OperationalError: database is locked"),
)
"""Whole messages."""

_OTHERS = (
    *((re.compile(_BEFORE + rb"(?i:" + words + rb")"), said) for words, said in _BEGUN),
    *((re.compile(_BEFORE + rb"(?i:" + words + rb")" + _AFTER), said) for words, said in _WHOLE),
)
"""Expressions for what else is said, and what Python or a tool would say."""


_LIVED_WITH = re.compile(
    rb"""
    \s*(?:\#|//|--?[A-Za-z]|[Oo]ptions?:|(?:not\ )?ok\ \d)  # a comment, an option, a test
    | [^\n]*(?:
      (?i:
        \brecovered\b | \breconnected\b | \bsucceeded\b | \bnon-?fatal\b | \bswallowed\b
        | \boptional\b | \btelemetry\b | \bprobe\b | \bhealth[ -]?checks?\b
        | \b(?:errors?|failures?|failed)\ by\b | \berror\ rate\b | \bretried\b
        | \b\d{1,9}\ tests?\ failed\b | \bexit\ codes\b
        | \b(?:failed|failures?|errors?)(?:[:=]\ ?|\ )\d{1,9}(?:\ times|\ ?[,(]|\ -)
        | \b(?:failed|failures?|errors?)[:=]\ ?0\b | \b0\ (?:failed|failures|errors)\b
        | \b(?:remove|delete|unlink|unmount|umount|clean[ -]?up|affinity|niceness|pid\ file|thread\ name)\b
        | \b(?:sched_setaffinity|setpriority|mlock(?:all)?|mbind|set_mempolicy|perf_event_open|perf\ counters?
          |dmesg|numactl|ulimit)\b
      )
      | \.\.\.\ (?:ok|ignored|FAILED)$
    )
    """,
    re.VERBOSE,
)
"""A line about what programs live with: counts of errors, what is put away, what is good to have."""

_GOES_ON = re.compile(
    rb"""
    [^\n]*\b(?i:attempt\ \#?(\d{1,6})(?:/|\ of\ )(?!\1\b)\d | instead | threshold | limit\ set)\b
    | ["'`)\]]{0,2}(?:[,;.:]|\ -|\ \()\ {0,3}(?i:(?:now|so|but|then|and|we\ are)\ )?
      (?!(?i:stop|exit|abort|giv|quit|terminat|shut|bail|clos|fail|kill|end|cancel|leav|finish|miss|dur|accord
        |follow|noth|someth|wait(?:ing|ed)\ too))
      (?i:[a-z-]{2,20}ing\b|uses?\b|re-?queued\b|skipped\b|tr(?:y|ies)\ again\b|0\b)
    """,
    re.VERBOSE,
)
"""What stands after such words if the program goes on."""


def usual_words(line: bytes, *, tells_failure: bool = True) -> bytes:
    """Return what a line says went wrong as Python says it; empty if no usual words say so.

    If the line does not tell that something failed, only errors of the system that end it count.
    """
    if _LIVED_WITH.match(line):
        return b""
    for expression, said in ((_SYSTEM, b""), *(_OTHERS if tells_failure else ())):
        if found := expression.search(line):
            goes_on = _GOES_ON.match(line, found.end())
            ends = tells_failure or not line[found.end() :].strip(b"\"'`.! \r")
            return b"" if goes_on or not ends else said or _OF_SYSTEM[found[1].lower()]
    return b""
