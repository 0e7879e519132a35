"""The text of a job as it is posted to OpenPAI's REST server, and as all its users can read it afterwards.

The server hides secrets by one regular expression over the text, and reads YAML as JavaScript does: numbers,
dates and booleans in other forms than ours. So all texts are quoted, and the section of secrets begins and
ends as that expression expects.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from pai_openpai.job_check import MOST_BYTES
from pai_openpai.submitted_code import PARAMETERS, SubmittedCode
from pai_openpai.submitted_job import submitted_job
from pai_runtime.engine import Job, Location, Plan, Problems
from pai_runtime.engine.jobs import secret_in, secret_texts
from pai_runtime.engine.records import TaskName

_SECTION: Final = "secrets"
_LAST: Final = "taskRoles"
"""What follows the secrets, so that the server finds their end."""
_MASKED: Final = 'secrets: "******"\n'
_LINE: Final = r"(?:\A|(?<=[\n\r\u2028\u2029]))"
"""The start of a line in JavaScript, where ``^`` is used with the flag m."""
_SERVERS_MASK: Final = re.compile(rf"{_LINE}secrets:[\s\S]*?{_LINE}(?=[A-Za-z0-9_])")
"""The server's own expression; it replaces the first match."""
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""A key that is no number or date to anybody; those that are words of YAML get quotes in any case."""


@dataclass(frozen=True)
class SubmittedText:
    """A job as it is posted.

    `text` is the body of the request, with the values of secrets; `shown` is what every user of the cluster
    can read of it, and equals it if there are none.
    """

    shown: str
    text: str = field(repr=False)


def submitted_text(
    job: Job,
    plans: Mapping[TaskName, Plan],
    name: str,
    *,
    virtual_cluster: str = "",
    submission: str = "",
    storages: Collection[str] | None = None,
    code: SubmittedCode | None = None,
) -> SubmittedText:
    """Return the text of a job for a run of this name. Raises `InvalidInput` if the server would change it.

    Commands and parameters are those of the `plans`: only references to secrets are left in them. A job that
    names no virtual cluster is for `virtual_cluster`, if given. `submission` is written into ``extras``.
    `storages` are those that the user may mount, None if unknown: a missing one is left out if its use
    ignores failures. `code` is what every task starts with.
    """
    problems = Problems()
    document = submitted_job(job, plans, storages, code, problems)
    document["name"] = name
    if virtual_cluster:
        document.setdefault("defaults", {"virtualCluster": virtual_cluster})
    if submission:
        document["extras"]["submission"] = submission
    shown = text = _yaml(document)
    if job.secrets:
        roles = {_LAST: document.pop(_LAST)}
        head, tail = _yaml(document), _yaml(roles)
        shown = f"{head}{_MASKED}{tail}"
        text = f"{head}{_yaml({_SECTION: secret_texts(job.secrets)})}{tail}"
        _check_secrets(job, {**document, **roles}, problems)
        if _as_shown(text) != shown:
            message = "OpenPAI would show these values to all its users"
            problems.add(job.value.at((_SECTION,)).problem("secrets-shown", message))
    _check_size(job, text, problems)
    problems.check()
    return SubmittedText(shown, text)


def _as_shown(text: str) -> str:
    """Return what the server shows of a text."""
    return _SERVERS_MASK.sub(_MASKED, text, count=1)


def _check_secrets(job: Job, document: Mapping[str, Any], problems: Problems) -> None:
    """Report values of secrets outside their section."""
    texts = [each for each in _texts(document) if each[0][0] != PARAMETERS]  # files are searched as they are
    if secret_in(job.secrets, "\0".join(text for _, text in texts)) is None:
        return
    for path, text in texts:
        if name := secret_in(job.secrets, text):
            message = (
                f"contains the value of the secret '{name}', and all users of the cluster can read it here;"
                f" write <% $secrets.{name} %> instead, or make it a parameter if it is no secret"
            )
            problems.add(_written(job, path).problem("secrets-shown", message))


def _written(job: Job, path: tuple[str | int, ...]) -> Location:
    """Return where a text of the document was written: a role's commands are one in it."""
    if path[0] == _LAST and path[2:3] == ("commands",):
        for each in job.roles[str(path[1])].commands:
            if secret_in(job.secrets, each.text):
                return each.at(())
        path = path[:3]
    return job.value.at(path)


def _texts(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield all keys and texts with their paths."""
    if isinstance(data, dict):
        for key, each in data.items():
            yield (*path, key), key
            yield from _texts(each, (*path, key))
    elif isinstance(data, list):
        for index, each in enumerate(data):
            yield from _texts(each, (*path, index))
    else:
        yield path, str(data)


def _check_size(job: Job, text: str, problems: Problems) -> None:
    size = len(text.encode())
    if size > MOST_BYTES:
        found, expected = f"{size} bytes", f"at most {MOST_BYTES} bytes"
        message = (
            f"OpenPAI takes {expected} of a job, and with all references resolved this one has {size}; move"
            " what is long into an image, a storage or a git repository"
        )
        problems.add(job.value.problem("job-too-large", message, found, expected))


class _Key(str):
    """A key of a mapping, which is written without quotes where all readers take it for text."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that quotes all texts and writes no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def text(self, data: str) -> yaml.Node:
        """Return a block for lines that each reader of YAML takes alike, else text in quotes."""
        body = data.removesuffix("\n")
        is_block = "\n" in body and body.strip() == body and body.replace("\n", "").isprintable()
        return self.represent_scalar("tag:yaml.org,2002:str", data, "|" if is_block else '"')

    def key(self, data: str) -> yaml.Node:
        style = None if _PLAIN_KEY.fullmatch(data) else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", str(data), style)


_Dumper.add_representer(str, _Dumper.text)
_Dumper.add_representer(_Key, _Dumper.key)


def _yaml(document: Mapping[str, Any]) -> str:
    text: str = yaml.dump(
        _keyed(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return text


def _keyed(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {_Key(key): _keyed(each) for key, each in data.items()}
    return [_keyed(each) for each in data] if isinstance(data, (list, tuple)) else data
