"""The answers of plugins to the questions of a check in a second process, in which texts have other hashes.

What a plugin makes of a set of texts, or by chance, differs there. It is a new interpreter, so that the time
of an import is that of the plugin's and of what it imports itself.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pai_runtime.host.blame import PluginError
from pai_runtime.host.check_questions import import_question, questions
from pai_runtime.host.host import Host
from pai_runtime.host.planning import Answer, ask, contribution_to_json
from pai_runtime.host.policy import read_policy
from pai_runtime.host.side_effects import prevent_side_effects
from pai_task.interpreter import python_argv
from pai_task.record import record


@record(frozen=True)
class SecondAnswers:
    """The answers of one plugin, each as `comparable` gives it.

    `import_ratio` is how many times as long its import took as Python takes to start, in processor time.
    """

    import_ratio: float
    answers: Sequence[Any]


def second_answers(host: Host, ids: Collection[str]) -> Mapping[str, SecondAnswers]:
    """Return the answers of some plugins in a second process, by id; of none if that process fails."""
    if not ids:
        return {}
    argv = python_argv(__name__, json.dumps([sorted(ids), host.policy_files]))
    null = subprocess.DEVNULL  # what plugins print, they have printed in the first process
    done = subprocess.run(argv, stdin=null, stdout=subprocess.PIPE, stderr=null, check=False)
    try:
        document = json.loads(done.stdout)
        return {id_: SecondAnswers(**fields) for id_, fields in document.items()}
    except (ValueError, TypeError, AttributeError):  # it failed, or the code of a plugin wrote to its output
        return {}


def main() -> None:
    """Print the answers; the second process runs this."""
    ids, policies = json.loads(sys.argv[1])
    host, bare = Host(*(read_policy(Path(file)) for file in policies)), _bare_start()
    document = {}
    for id_ in ids:
        plugin = host.find(id_)
        asked = chain.from_iterable(each.questions for each in questions(plugin))
        imported, *answers = ask(host, [import_question(plugin), *asked], prevent_side_effects)
        ratio = imported.import_time / bare if isinstance(imported, Answer) else 0
        document[id_] = {"import_ratio": ratio, "answers": [comparable(each) for each in answers]}
    with os.fdopen(1, "w") as output:
        json.dump(document, output)


def comparable(answer: Answer | PluginError) -> Any:
    """Return an answer as JSON data that is equal for equal answers; of an error, only its kind."""
    if isinstance(answer, PluginError):
        return answer.kind
    return [
        each.kind if isinstance(each, PluginError) else json.loads(json.dumps(contribution_to_json(each)))
        for each in answer.contributions
    ]


def _bare_start() -> float:
    """Return how many seconds of processor time the start of Python takes, at least a millisecond."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", "pass"], {})
    _, _, usage = os.wait4(pid, 0)
    return max(usage.ru_utime + usage.ru_stime, 0.001)
