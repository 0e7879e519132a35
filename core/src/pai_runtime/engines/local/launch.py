"""What is told of the start of a task's supervisor on this machine."""

import json
import os
from collections.abc import Mapping, Sequence

from pai_task.record import field, record


@record(frozen=True)
class Bind:
    """A bind mount: a directory or file of this machine, and its path in a task.

    `below` is a folder in `source`, which others may write to: no link is followed on the way to it.
    """

    source: str
    target: str
    read_only: bool = False
    below: str = ""


@record(frozen=True)
class Isolated:
    """The isolation of a task: its namespaces, where its writes are kept, and its storages.

    `run` and `layers` are the folders of the run, and of the kernel's files for this task; `code` is the
    folder, if any, over which its working directory is a layer; `user` is the user and the group, which are
    known only outside of the namespaces.
    """

    namespaces: int
    run: str
    layers: str
    storage: Sequence[Bind] = ()
    code: str = ""
    user: tuple[int, int] = field(default_factory=lambda: (os.geteuid(), os.getegid()))


@record(frozen=True)
class Launch:
    """The start of a supervisor for the task in `folder`: its launch options and environment.

    With `silent`, the task's output goes to its logs only.
    """

    folder: str
    environment: Mapping[str, str] = field(repr=False)
    options: str
    silent: bool = False
    isolated: Isolated | None = None

    @classmethod
    def from_json(cls, text: bytes) -> "Launch":
        """Parse the JSON of a launch's `asdict`."""
        given = json.loads(text)
        if isolated := given["isolated"]:
            storage = [Bind(**bind) for bind in isolated["storage"]]
            given["isolated"] = Isolated(**{**isolated, "storage": storage})
        return cls(**given)
