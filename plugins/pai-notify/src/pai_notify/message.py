"""What a message says, for any channel: a title, facts, and the last lines of the output."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pai_runtime.plugin import Task

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINES = 20
_LINES_CHARACTERS = 2500
"""Below what Slack takes in one block, 3000."""
_TITLE_CHARACTERS = 140
_FACT_CHARACTERS = 1000

_HAPPENED = {"failure": "failed", "success": "succeeded", "start": "started"}


class Message:
    """A message about a task; the texts of its exit record are already masked and bounded."""

    def __init__(self, event: str, task: Task, record: Mapping[str, Any]) -> None:
        self.event = event
        self.name = f"{task.role}/{task.index}"
        run, phrase = clean(task.run or task.job), clean(record.get("phrase"))
        what = f"{self.name} {_HAPPENED[event]}" + (f": {phrase}" if phrase else "")
        self.title = f"{run}: {what}".replace("\n", " ")[:_TITLE_CHARACTERS]
        logs = record.get("errorLogs", {})
        log = clean(logs.get("user") or logs.get("platform")).strip("\n")
        self.lines = "\n".join(log.split("\n")[-_LINES:])[-_LINES_CHARACTERS:]
        self.facts = {
            "job": clean(task.job),
            "run": run,
            "user": clean(task.user),
            "task": self.name,
            "exit code": str(record.get("exitCode", "")),
            "outcome": clean(record.get("outcome")),
            "cause": phrase,
            "reason": clean(record.get("reason") or record.get("message")),
            "solution": "\n".join(f"- {clean(each)}" for each in record.get("solution", ())),
            "retry": clean(record.get("behavior")),
        }
        self.facts = {name: value[:_FACT_CHARACTERS] for name, value in self.facts.items() if value}
        self.document = {
            "event": event,
            "title": self.title,
            "job": task.job,
            "run": run,
            "user": task.user,
            "role": task.role,
            "index": task.index,
            **{
                name: _clean(record[name])
                for name in ("exitCode", "outcome", "phrase", "reason", "solution", "behavior", "message")
                if name in record
            },
            "lines": self.lines.split("\n") if self.lines else [],
        }

    @property
    def text(self) -> str:
        """The whole message as plain text."""
        facts = [
            f"{name}: {value}" if "\n" not in value else f"{name}:\n{value}"
            for name, value in self.facts.items()
        ]
        last = ["", "The last lines of the output:", "", self.lines] if self.lines else []
        return "\n".join([self.title, "", *facts, *last]) + "\n"


def _clean(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_clean, value))
    return clean(value) if isinstance(value, str) else value


def clean(text: object) -> str:
    """Return a text without colours, and with a mark for other control characters than tabs and line ends."""
    return _CONTROL.sub("\ufffd", _COLOURS.sub("", "" if text is None else str(text)))
