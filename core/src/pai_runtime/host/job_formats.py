"""Job files that are not of protocol version 2: the plugin for their format gives the job in that version.

Which plugin that is, its manifest says. It is asked in a separate process, as all code of plugins is while a
job is planned; what it answers is read as what anybody may have written.
"""

import contextlib
import json
from functools import partial
from typing import Any, Final, NoReturn

from pai_document.problems import InvalidInput, Problem, Problems
from pai_document.schemas import located_in
from pai_document.value import Value
from pai_runtime.host.blame import PluginError, blamed
from pai_runtime.host.discovery import Plugin
from pai_runtime.host.document_json import node_from_json, node_to_json, problem_from_json, problem_to_json
from pai_runtime.host.host import Host, Unavailable, check_by_manifest
from pai_runtime.host.separate_process import AnswerPipe, NoAnswer, SeparateProcess

HOOK: Final = "pai_read_job"
_VERSION_1: Final = "com.microsoft.pai.runtimeplugin.job_v1"
"""The id of the plugin that comes with the runtime, in the distribution ``pai-job-v1``."""

_PHASE = f"hook {HOOK}"
_LONGEST_ERROR = 2000


def in_version_2(root: Value, host: Host, problems: Problems) -> Value:
    """Return a document without ``protocolVersion`` as a job of version 2; as it is if its format is unknown.

    Nothing is imported for a document that is in no format, or in one whose plugin may not be used. Raises
    `InvalidInput`, also for a job of version 1 if its plugin is not installed or is broken.
    """
    try:
        id_ = host.only(partial(_is_in_format, root), "the format of this job") or _unusable(root, host)
        if id_ is None:
            return root
        plugin = host.find(id_)
    except Unavailable as error:
        code, install = "plugin-refused", ""
        if not error.installed:
            code, install = "no-such-plugin", "; to install it: pip install pai-job-v1"
        raise InvalidInput([root.problem(code, f"the job cannot be read: {error}{install}")]) from None
    try:
        return _read(root, host, plugin, problems)
    except PluginError as error:
        raise InvalidInput([root.problem("plugin-error", str(error))]) from None


def _unusable(root: Value, host: Host) -> str | None:
    """Return the id of the plugin for version 1 if a document looks like that and the plugin has no format.

    That is because it is not installed, or its manifest cannot be read.
    """
    if "jobName" not in root.data and not isinstance(root.data.get("taskRoles"), list):
        return None
    faults = [plugin.fault for plugin in host.installed.get(_VERSION_1, ())]
    return _VERSION_1 if all(faults) else None


def _is_in_format(root: Value, plugin: Plugin) -> bool:
    schema, found = plugin.manifest.job_format, Problems()
    if schema is not None:
        check_by_manifest(plugin, root.data, schema, found, located_in(root.position.file))
    return schema is not None and not found.in_order


def _read(root: Value, host: Host, plugin: Plugin, problems: Problems) -> Value:
    """Return the job that the plugin makes of a document, asked in a separate process.

    Raises `PluginError` if it fails, `InvalidInput` if it refuses the job or no process can be started.
    """
    work = partial(_answer, root, host, plugin, problems)
    try:
        with contextlib.closing(SeparateProcess(work)) as process:
            answer = process.receive()
    except OSError as error:
        message = f"cannot start a process for {plugin.label} to read the job: {error.strerror}"
        raise InvalidInput([Problem("no-process", message)]) from error
    except NoAnswer as error:
        raise PluginError(plugin, _PHASE, str(error)) from None
    try:
        return _understood(answer, root, plugin, problems)
    except (ValueError, RecursionError) as error:
        raise PluginError(plugin, _PHASE, f"returned {error}") from None


def _understood(answer: Any, root: Value, plugin: Plugin, problems: Problems) -> Value:
    match answer:
        case {"phase": str(phase), "error": str(what)}:
            raise PluginError(plugin, phase[:_LONGEST_ERROR], what[:_LONGEST_ERROR])
        case {"problems": list(found), "document": document}:
            problems.add(*map(problem_from_json, found))
            if document is None:
                _invalid(root, plugin, problems)
            return Value(node_from_json(document, root.node.source))
    raise ValueError("an answer that cannot be understood")


def _invalid(root: Value, plugin: Plugin, problems: Problems) -> NoReturn:
    problems.check()
    raise PluginError(plugin, _PHASE, f"refused {root.position.file} without an error")


def _answer(root: Value, host: Host, plugin: Plugin, problems: Problems, pipe: AnswerPipe) -> None:
    """Call the plugin and send its answer; the separate process runs this, on copies of the arguments."""
    before = set(problems.in_order)
    try:
        loaded = host.load(plugin)
        with blamed(plugin, _PHASE):
            node = _node(root, plugin, problems, getattr(loaded.manager.hook, HOOK))
            found = [problem_to_json(each) for each in problems.in_order if each not in before]
            answer = json.dumps({"problems": found, "document": node})
    except PluginError as error:
        answer = json.dumps({"phase": error.phase, "error": error.what})
    pipe.send(answer)


def _node(root: Value, plugin: Plugin, problems: Problems, hook: Any) -> list[Any] | None:
    """Return the job that the hook returns, as JSON; None if it refuses the job, with why in `problems`."""
    try:
        made: object = hook(document=root, problems=problems)
    except InvalidInput as error:
        problems.add(*error.problems)
        return None
    if not isinstance(made, Value):
        raise PluginError(plugin, _PHASE, f"returned {type(made).__name__}, not a Value")
    return node_to_json(made.node)
