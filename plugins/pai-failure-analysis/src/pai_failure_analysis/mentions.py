"""Lines that only mention an error: by a logger's level below error, or as what will be tried again."""

import re

from pai_failure_analysis import regex

_MOST = 1000
"""Maximum matches of an expression that are looked at; in more, programs mention what they live with."""

_MENTIONS = re.compile(
    rb"""
    (?:[\[(<]?\d[\d:.,TZ+/ -]{0,80}[\])>]?[ \t|:-]{0,20})?  # a time
    (?:[\w./:-]{1,80}\ ?[-|:]\ ?)?                       # a name
    [\[(<]?(?:WARNING|WARN|INFO|DEBUG|TRACE|NOTICE(?!:\ Failed\ to\ )
      |[Ww]arning:|[Ii]nfo:|[Dd]ebug:|[Nn]otice:)(?:[\])> :|-]|$)
    | (?:\d[\d:. -]{0,40}:\ )?[ID](?:\d{4}\ \d\d:|\ \S{1,200}:\d{1,6}\])  # glog, TensorFlow and XLA
    | [IDW]\ \d\d-\d\d\ [\d:]{8}\ \S{1,80}:\d{1,6}\]  # SkyPilot
    | HTTP\ Request:\ [A-Z]{3,7}\ http                      # httpx
    | (?:PASSED|SKIPPED|XFAIL|ok(?:\ \d{1,6})?\ -)\         # tests
    | [^\n]{0,400}(?:(?<![Nn]ot\ )\b[Rr]etrying\b(?!\ up\ to\ 0\ )
      |\b(?:level|severity|levelname)["']?[ ]?[=:][ ]?["']?(?i:info|debug|trace|notice|warn(?:ing)?)\b
      |\b[Ww]ill\ retry\b|\b[Rr]etry\ in\b|\b[Tt]rying\ again\ in\b|\wWarning:\ )
    | (?!(?:\w{1,80}\.){0,9}[A-Z]\w{0,80}(?:Error|Exception):\ )[^\n]{0,400}(?:
      \b[Ff](?:alling|alls|ell)\ back\b
      |[,;:.(-]\ ?(?:(?:now\ )?(?:running|continuing|going)\ (?:on\ (?:the\ )?CPU|with(?:out)?)\b
        |[Ss]witching\ to\b
        |[Uu]sing\ (?:the\ |a\ )?(?:CPU|cached?|default|fallback|mirror|built-?in)s?\b
        |[Tt]rying\ (?:an?\ |the\ )?(?:smaller|next|other|another|again|mirror)\b))
    """,
    re.VERBOSE,
)


def is_mention(line: bytes) -> bool:
    """Return whether a line only mentions an error, by a level below error or as what will be tried again."""
    return _MENTIONS.match(line) is not None


def first_error(expression: str, log: bytes) -> int | None:
    """Return the index of the first match of an expression in a line that does not only mention it.

    An expression that asks for a warning finds one, and so does one that asks for lines together.
    """
    asks = "WARN" in expression or "Warning" in expression or expression.startswith("(?s)")
    for count, start in enumerate(regex.starts(expression, log)):
        if asks or _MENTIONS.match(log, log.rfind(b"\n", 0, start) + 1) is None:
            return start
        if count == _MOST:
            break
    return None
