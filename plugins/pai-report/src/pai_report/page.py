"""A report as one HTML page that needs nothing else, and can load nothing else."""

import base64
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pai_report.gathering import Report, TaskReport
from pai_report.timeline import Span
from pai_runtime.command.output import counted, printable
from pai_runtime.command.runs import settings

_HERE: Final = Path(__file__).parent
_WIDTH: Final = 1000
"""Width of the time line, in its own units."""
_LEAST: Final = 2
_MINUTE: Final = 60
_LONGEST_TEXT: Final = 100_000
"""Characters of a text in the page, such as that of the job."""


class Bar(NamedTuple):
    """A span as it is drawn: where it begins, and its width."""

    x: float
    width: float
    span: Span


def page(report: Report) -> str:
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"took": _took, "clock": _clock, "date": _date, "count": _count}
    style, script = ((_HERE / name).read_text("utf-8") for name in ("report.css", "report.js"))
    first, last = _limits(report)
    return environment.get_template("report.html.j2").render(
        report=report,
        run=report.run,
        bars=lambda task: list(_bars(task, first, last)),
        took_all=last - first,
        set_values=settings(report.provenance),
        job=_job(report),
        plugins=_plugins(report),
        style=Markup(style),  # noqa: S704 - a file of ours, as it is
        script=Markup(script),  # noqa: S704 - as above
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    """Return by what a policy of the page allows just this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _seen(value: Any) -> Any:
    """Return a text of others with all that is not seen as itself escaped, except for line breaks."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(map(printable, value.split("\n")))
    return value


def _limits(report: Report) -> tuple[float, float]:
    """Return the times at which the time line begins and ends."""
    spans = [span for task in report.tasks for span in task.spans]
    first = min([report.run.started, *(span.start for span in spans)])
    ends = [span.end for span in spans if span.end is not None]
    now = [] if report.run.over else [report.written]
    return first, max([first + 1e-3, *filter(None, [report.run.ended]), *ends, *now])


def _bars(task: TaskReport, first: float, last: float) -> Iterator[Bar]:
    scale = _WIDTH / (last - first)
    for span in task.spans:
        x = (span.start - first) * scale
        end = last if span.end is None else span.end
        yield Bar(round(x, 1), round(max(_LEAST, (end - first) * scale - x), 1), span)


def _job(report: Report) -> str:
    job = report.provenance.get("job")
    text = job.get("text") if isinstance(job, dict) else None
    return text[:_LONGEST_TEXT] if isinstance(text, str) else ""


def _plugins(report: Report) -> list[dict[str, str]]:
    listed = report.provenance.get("plugins")
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [
        {key: str(each.get(key) or "") for key in ("id", "distribution", "version", "digest")}
        for each in found
    ]


def _took(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours} h {minutes:02} min {rest:02} s" if hours else f"{minutes} min {rest:02} s"


def _clock(moment: float) -> str:
    whole, part = divmod(round(moment * 1000), 1000)
    return time.strftime(f"%H:%M:%S.{part:03}", time.gmtime(whole))


def _date(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


def _count(number: int, one: str, several: str) -> str:
    return counted(number, one, several)
