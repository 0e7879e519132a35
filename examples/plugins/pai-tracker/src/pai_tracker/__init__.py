"""The plugin ``com.example.tracker``: keeps the metrics of a run where others find them."""

import json
from collections.abc import Mapping
from typing import Any

from pai_runtime.plugin import Contribution, Service, ShellStep, Task, Use, hookimpl

QUOTA = {
    "containerExitCode": 30,
    "phrase": "TrackerQuotaExceeded",
    "behavior": "PERMANENT",
    "reason": "The project has used up its quota.",
    "solution": ["Delete runs that nobody needs, or ask for more."],
    "patterns": [{"userLogRegex": r"tracker: quota of \S+ exceeded"}],
}

# What stands for the client of the service, which sends on what the command writes.
SYNC = """
touch "$TRACKER_DIR/ready"
exec sleep 86400
"""


@hookimpl
def pai_prerequisite(use: Use, task: Task) -> Contribution:
    environment = {
        "TRACKER_CLIENT": "1.0",
        "TRACKER_PROJECT": use.parameters["project"],
        "TRACKER_RUN": f"{task.run}-{task.role}-{task.index}",
        "TRACKER_DIR": str(task.folder / "tracker"),
    }
    start = 'mkdir -p "$TRACKER_DIR" && echo "tracker: $TRACKER_PROJECT/$TRACKER_RUN"'
    if "key" in use.parameters:
        environment["TRACKER_API_KEY"] = use.parameters["key"]
    return Contribution(
        environment=environment,
        steps=[ShellStep("taskStarts", start)],
        services=[Service("tracker", SYNC, probe='test -e "$TRACKER_DIR/ready"', required=True)],
        exit_rules=[QUOTA],
        permanent_codes=[30],
    )


@hookimpl
def pai_task_exits(task: Task, record: Mapping[str, Any]) -> None:
    summary = {"task": f"{task.role}/{task.index}", "exitCode": record["exitCode"]}
    (task.folder / "tracker" / "summary.json").write_text(json.dumps(summary))
