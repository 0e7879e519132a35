"""Whatever tasks and engines write, it is text in the page of a run: no markup, and nothing unseen."""

import base64
import hashlib
import json
import os
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.played_run import PlayedRun
from tests.support import cli

pytestmark = pytest.mark.process

EVIL = (
    '</pre></script><script>window.ran=1</script><img src=x onerror="window.ran=1">'
    "\" onmouseover='window.ran=1' x='{{ 7*7 }}{% raw %}<!-- "
    "\u202eevil\u202c \x1b[31mred\x1b[0m \ud800\x00\x7f]]>&lt;b&gt;"
)
NOT_SEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Tags(HTMLParser):
    """The tags of a page with their attributes, and the contents of its scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.inline: dict[str, str] = {}
        self.policy = ""
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self._in = tag
        if dict(attrs).get("http-equiv") == "Content-Security-Policy":
            self.policy = str(dict(attrs)["content"])

    def handle_data(self, data: str) -> None:
        if self._in in ("script", "style"):
            self.inline[self._in] = self.inline.get(self._in, "") + data

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._in = ""


def parsed(folder: Path) -> Tags:
    ended = cli("report", folder)
    assert ended.returncode == 0, ended.stderr
    text = (folder / "report.html").read_text("utf-8")
    assert not NOT_SEEN.search(text)
    tags = Tags()
    tags.feed(text)
    return tags


def hostile(folder: Path, evil: str) -> PlayedRun:
    """A run in which everything that a task can write is evil."""
    played = PlayedRun(folder, worker=2)
    played.document["file"] = evil
    own = played.task_folder("worker/0")
    played.output("worker/0", evil.encode("utf-8", "replace") + b"\nlast\n")
    played.output("worker/0", evil.encode("utf-8", "replace"), log="runtime.log")
    played.progress(
        "worker/0", "ended", addresses={"board": "javascript:alert(1)"}, failedServices={evil: evil}
    )
    record = {
        "exitCode": 1,
        "outcome": "failed",
        **dict.fromkeys(("message", "phrase", "reason", "matchedUserLogString"), evil),
        "solution": [evil],
        "callbackFailureCount": 1,
        "callbackFailures": [{"phase": "taskExits", "use": evil, "source": evil, "exitCode": 1}],
        "usage": {"memoryPeakMB": 1, "cpuSeconds": 1, "requested": {"gpu": evil}},
    }
    (own / "exit.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in record.items()))
    (own / "variables.json").write_text(json.dumps({evil: {"source": evil, "value": evil}}))
    events = [
        {"time": 1.0, "event": "supervisorStarted", "pid": 1},
        {"time": 1.5, "event": evil},
        {"time": 2.0, "event": "stepStarted", "phase": evil, "use": evil, "useIndex": evil},
        {"time": 3.0, "event": "stepEnded", "phase": evil, "useIndex": evil, "exitCode": evil},
        {"time": 1e11, "event": "serviceFailed", "service": evil, "message": evil},
        {"time": 0, "event": "commandStarted"},
    ]
    (own / "events.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    origin = {"job": {"text": evil, "file": evil}, "set": {evil: evil}, "plugins": [{"id": evil}, evil, None]}
    (folder / "provenance.json").write_text(json.dumps(origin))
    played.all("failed", exitCode=1, failedCallbacks=1)
    played.end("failed", "worker/0")
    return played


def test_all_that_a_task_can_write_stays_text(tmp_path: Path) -> None:
    hostile(tmp_path / "harmless", "harmless")
    hostile(tmp_path / "evil", EVIL)
    harmless, evil = parsed(tmp_path / "harmless"), parsed(tmp_path / "evil")
    assert evil.tags == harmless.tags
    assert evil.attributes == harmless.attributes
    assert evil.inline == harmless.inline
    assert not any(name.startswith("on") or name in ("src", "style") for name in evil.attributes)


def test_the_page_may_load_nothing_and_run_only_its_own_script(tmp_path: Path) -> None:
    hostile(tmp_path, "harmless")
    found = parsed(tmp_path)
    allowed = {
        name: f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for name, text in found.inline.items()
    }
    assert found.policy.split("; ") == [
        "default-src 'none'",
        f"style-src {allowed['style']}",
        f"script-src {allowed['script']}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert found.tags["script"] == found.tags["style"] == 1


@pytest.mark.parametrize("form", ["--json", "--prometheus"])
def test_other_forms_print_nothing_that_a_terminal_obeys(tmp_path: Path, form: str) -> None:
    hostile(tmp_path, EVIL)
    ended = cli("report", tmp_path, form)
    assert ended.returncode == 0, ended.stderr
    assert not NOT_SEEN.search(ended.stdout)


def test_links_and_fifos_in_the_place_of_files_hold_nobody_up(tmp_path: Path) -> None:
    played = hostile(tmp_path, "harmless")
    own = played.task_folder("worker/0")
    for name in ("events.jsonl", "variables.json", "exit.yaml", "plan.json"):
        (own / name).unlink(missing_ok=True)
        os.mkfifo(own / name)
    (tmp_path / "elsewhere").write_text("not yours")
    (own / "logs" / "user-all" / "current").unlink()
    (own / "logs" / "user-all" / "current").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "report.html").symlink_to(tmp_path / "elsewhere")
    parsed(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "not yours"
    assert not (tmp_path / "report.html").is_symlink()
    assert "not yours" not in (tmp_path / "report.html").read_text("utf-8")
