"""Conversion of a job of version 1 to the same job in version 2, document to document.

Every value stands where the one of version 1 is that it was made of, so that what is said of it later points
there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pai_job_v1.check import check_version_1
from pai_job_v1.fields import items, not_null, required
from pai_job_v1.names import identifiers, job_name
from pai_job_v1.numbers import with_numbers
from pai_runtime.plugin import framework_name
from pai_runtime.plugin.job_format import (
    MAX_NODES,
    DocumentPath,
    InvalidInput,
    Node,
    Problem,
    Problems,
    Severity,
    Value,
    names_secret,
    new_node,
)

_IMAGE: Final = "docker_image_0"
_HELD: Final = "24h"
_SHM_MB: Final = 64
_TAG: Final = "openingTag"
_REFERENCE = re.compile(r"<%(?=\s*(\$|this\b|parameters\b|secrets\b))")
_DEFAULT_FS = re.compile(r"\$(PAI_DEFAULT_FS_URI\b|\{PAI_DEFAULT_FS_URI\})")


@dataclass(frozen=True)
class Conversion:
    """A job in version 2, with comments on the decisions, by the paths that they are about."""

    root: Value
    comments: Mapping[DocumentPath, Sequence[str]]


def converted(root: Value, problems: Problems) -> Conversion:
    """Return the job in version 2, and report decisions. Raises `InvalidInput` for faults in version 1."""
    if (comment := root.node.source.comment) is not None:
        where = root.node.source.position(comment)
        problems.add(Problem("comments", "its comments are left out", where, severity="note"))
    root = with_numbers(root)
    check_version_1(root, problems)
    problems.check()
    return _Converter(root, problems).conversion()


class _Converter:
    """A converter of one document; `given` parameters are values of version 1, None if missing."""

    def __init__(self, root: Value, problems: Problems) -> None:
        self._root = root
        self._problems = problems
        self._comments: dict[DocumentPath, list[str]] = {}
        self._has_tag = False
        self._secrets: dict[str, Node] = {}
        roles = root.get("taskRoles")
        self._roles = list(roles.values()) if roles else []
        names = [str(role.data["name"]) for role in self._roles]
        self._names = identifiers(names, framework_name, "role")

    def conversion(self) -> Conversion:
        root = self._root
        name = required(root, "jobName")
        chosen = job_name(name.text)
        self._say_renamed(name, chosen, ("name",), "$PAI_JOB_NAME too")
        prerequisites = self._prerequisites()
        roles = self._task_roles()
        virtual_cluster = self._text("virtualCluster")
        document = {
            "protocolVersion": 2,
            "name": new_node(name.node, chosen),
            "type": "job",
            "jobRetryCount": self._retries(),
            "parameters": {_TAG: "<%"} if self._has_tag else None,
            "secrets": self._secrets or None,
            "prerequisites": prerequisites,
            "taskRoles": roles,
            "defaults": {"virtualCluster": virtual_cluster.node} if virtual_cluster else None,
            "extras": self._extras(),
        }
        node = new_node(root.node, {key: each for key, each in document.items() if each is not None})
        return Conversion(Value(node), self._comments)

    def _retries(self) -> Node | None:
        given = not_null(self._root, "retryCount")
        if given is None or given.data >= 0:
            return given.node if given else None
        message = "below 0, it means retries without limit, which there are not here: none"
        self._say(given, message, ("jobRetryCount",), "decided", "warning")
        return new_node(given.node, 0)

    def _prerequisites(self) -> list[Node]:
        image = required(self._root, "image")
        made = [
            new_node(
                image.node, {"name": _IMAGE, "type": "dockerimage", "uri": self._literal(image, ("name",))}
            )
        ]
        if auth := self._text("authFile"):
            message = (
                "is not read, as nothing here reads files on HDFS; for an image that needs a login, version 2"
                " has the field auth of its prerequisite: {username: …, password: a reference to a secret}"
            )
            self._say(auth, message, ("prerequisites", 0), "not-read", "warning")
        for kind, field in (("data", "dataDir"), ("output", "outputDir")):
            if folder := self._text(field):
                path = ("prerequisites", len(made))
                made.append(
                    new_node(folder.node, {"name": kind, "type": kind, "uri": self._literal(folder, path)})
                )
                self._say_not_fetched(folder, f"$PAI_{kind.upper()}_DIR", path)
        return made

    def _say_not_fetched(self, folder: Value, variable: str, path: DocumentPath) -> None:
        if _is_elsewhere(folder):
            message = f"the runtime copies nothing from there or to there; commands find it in {variable}"
            self._say(folder, message, path, "not-fetched", "warning")

    def _task_roles(self) -> dict[str, Node]:
        exports = self._exports()
        made = {}
        for role in self._roles:
            name = required(role, "name")
            chosen = self._names[name.text]
            variables = "$PAI_TASK_ROLE_LIST and $PAI_CURRENT_TASK_ROLE_NAME too"
            self._say_renamed(name, chosen, ("taskRoles", chosen), variables)
            made[chosen] = self._role(role, ("taskRoles", chosen), exports)
        return made

    def _role(self, role: Value, path: DocumentPath, exports: Sequence[Node]) -> Node:
        shm = not_null(role, "shmMB")
        ports = {label: required(port, "portNumber").node for label, port in self._ports(role).items()}
        for port, label in zip(items(role, "portList"), ports, strict=True):
            where = (*path, "resourcePerInstance", "ports", label)
            self._say_renamed(required(port, "label"), label, where, "the variables with its name too")
        if storage := not_null(role, "storageGB"):
            self._say(storage, "has no effect: nothing limits the disk of a task", path, "no-effect", "note")
        resources: dict[str, Any] = {
            "cpu": required(role, "cpuNumber").node,
            "memoryMB": required(role, "memoryMB").node,
            "gpu": required(role, "gpuNumber").node,
        }
        command = required(role, "command")
        document = {
            "instances": required(role, "taskNumber").node,
            "completion": self._completion(role, (*path, "completion")),
            "dockerImage": _IMAGE,
            **{kind: kind for kind in ("data", "output") if self._text(f"{kind}Dir")},
            "resourcePerInstance": {**resources, **({"ports": ports} if ports else {})},
            "extraContainerOptions": {"shmMB": shm.node if shm else _SHM_MB},
            "commands": [*exports, self._literal(command, (*path, "commands", len(exports)))],
        }
        return new_node(role.node, document)

    def _completion(self, role: Value, path: DocumentPath) -> dict[str, Any]:
        failed, succeeded = role.get("minFailedTaskCount"), not_null(role, "minSucceededTaskCount")
        made: dict[str, Any] = {}
        if failed is not None:
            made["minFailedInstances"] = -1 if failed.data is None else failed.node
        if failed is not None and failed.data is None:
            message = "null: the job succeeds once all tasks have ended, whatever tasks fail; -1 in version 2"
            self._say(failed, message, (*path, "minFailedInstances"), "decided", "note")
        made["minSucceededInstances"] = succeeded.node if succeeded else -1
        return made

    def _ports(self, role: Value) -> dict[str, Value]:
        """Return the ports of a role by their labels in version 2."""
        ports = items(role, "portList")
        labels = [required(port, "label").text for port in ports]
        names = identifiers(labels, str, "port")
        return {names[label]: port for label, port in zip(labels, ports, strict=True)}

    def _exports(self) -> list[Node]:
        """Return the commands that set the variables of version 1, before the command of each role."""
        made = []
        if data := self._text("dataDir"):
            made.append(self._export(data, "PAI_DATA_DIR", _quoted_folder(data.text)))
        output = self._text("outputDir")
        name = required(self._root, "jobName")
        usual = f'"$PAI_DEFAULT_FS_URI/Output/{name.text}"'
        made.append(
            self._export(output or name, "PAI_OUTPUT_DIR", _quoted_folder(output.text) if output else usual)
        )
        if code := self._text("codeDir"):
            value = '"$PWD"' if self._is_folder(code) else _quoted_folder(code.text)
            made.append(self._export(code, "PAI_CODE_DIR", value))
        variables = not_null(self._root, "jobEnvs")
        given = variables.values() if variables else ()
        made += [self._exported(each, str(each.key)) for each in given]
        if len(self._roles) * sum(each.size for each in made) > MAX_NODES:
            message = f"in every task role, they are more than {MAX_NODES} values"
            raise InvalidInput([(variables or self._root).problem("too-many-values", message)])
        return made

    def _exported(self, given: Value, name: str) -> Node:
        """Return the command that sets a variable of ``jobEnvs``, or a secret if it is named like one."""
        if isinstance(given.data, bool) or not given.text or not names_secret(name):
            return self._export(given, name, _quoted(given.text))
        message = "a secret of version 2, as its name says; not shown in plans and logs"
        self._say(given, message, ("secrets", name), "secret", "note")
        # The value is inserted as it is: between quotes, so without any.
        parts = given.text.split("'")
        self._secrets[name] = new_node(given.node, parts if len(parts) > 1 else given.text)
        paths = [f"{name}[{number}]" for number in range(len(parts))] if len(parts) > 1 else [name]
        value = '"\'"'.join(f"'<% $secrets.{path} %>'" for path in paths)
        return new_node(given.node, f"export {name}={value}")

    def _export(self, given: Value, name: str, value: str) -> Node:
        return self._without_references(new_node(given.node, f"export {name}={value}"), given, ("taskRoles",))

    def _extras(self) -> Node | None:
        given = not_null(self._root, "extras")
        made: dict[str, Any] = {str(each.key): each.node for each in given.values()} if given else {}
        own = {
            "firstPorts": self._first_ports(),
            "hivedScheduler": self._scheduler(),
            "holdOnFailure": self._hold(),
            "code": self._code(),
        }
        for key, value in own.items():
            if value is None:
                continue
            if key in made:
                where = given.get(key) if given else None
                message = "takes precedence over what other fields of the job say of the same"
                self._say(where or self._root, message, ("extras", key), "decided", "note")
            else:
                made[key] = value
        return new_node((given or self._root).node, made) if made else None

    def _first_ports(self) -> dict[str, Any] | None:
        made = {}
        for role in self._roles:
            name = self._names[required(role, "name").text]
            starts = {label: required(port, "beginAt") for label, port in self._ports(role).items()}
            first = {label: start.node for label, start in starts.items() if start.data}
            if first:
                made[name] = new_node(role.node, first)
        if made:
            self._comment(("extras", "firstPorts"), "beginAt: the first port of the first task of each role")
        return made or None

    def _scheduler(self) -> Node | None:
        kind = self._text("gpuType")
        roles = {
            self._names[required(role, "name").text]: {
                "skuType": kind.node,
                "skuNum": required(role, "gpuNumber").node,
            }
            for role in self._roles
            if kind and required(role, "gpuNumber").data
        }
        if not kind or not roles:
            return None
        self._comment(("extras", "hivedScheduler"), "gpuType: read by the scheduler of a cluster only")
        return new_node(kind.node, {"taskRoles": roles})

    def _hold(self) -> Node | None:
        """Return for how long failed tasks are held; None if version 1 does not ask for it."""
        debug = self._root.get("jobEnvs", "isDebug")
        if debug is None or debug.data is not True:
            return None
        message = f"failed tasks are held for {_HELD} at most"
        self._say(debug, message, ("extras", "holdOnFailure"), "decided", "note")
        return new_node(debug.node, _HELD)

    def _code(self) -> Node | None:
        """Return the directory of the code; None if it is not one beside the job file."""
        code = self._text("codeDir")
        if code is None:
            return None
        if self._is_folder(code):
            message = "its files are in the working directory of each task, which is $PAI_CODE_DIR"
            self._say(code, message, ("extras", "code"), "decided", "note")
            return code.node
        if _is_elsewhere(code):
            self._say_not_fetched(code, "$PAI_CODE_DIR", ("taskRoles",))
        else:
            message = "no such directory beside the job file; for any other directory, use run --code"
            self._say(code, message, ("taskRoles",), "no-such-directory", "warning")
        return None

    def _is_folder(self, code: Value) -> bool:
        path = Path(code.text)
        try:
            return not path.is_absolute() and (Path(self._root.position.file).parent / path).is_dir()
        except OSError:
            return False

    def _literal(self, given: Value, path: DocumentPath) -> Node:
        return self._without_references(given.node, given, path)

    def _without_references(self, node: Node, given: Value, path: DocumentPath) -> Node:
        """Return a text with everything escaped that would be a reference in version 2."""
        text, count = _REFERENCE.subn(f"<% $parameters.{_TAG} %>", node.text)
        if not count:
            return node
        self._has_tag = True
        message = f"version 1 has no references, so that '<%' is a parameter of version 2, {_TAG}"
        self._say(given, message, path, "decided", "note")
        return node.replaced(text, text)

    def _text(self, field: str) -> Value | None:
        """Return a field of the job that is a non-empty string; None if it is missing or something else."""
        given = not_null(self._root, field)
        return given if given and given.data else None

    def _say_renamed(self, given: Value, name: str, path: DocumentPath, also: str) -> None:
        if name != given.text:
            message = f"is '{name}' in version 2, which does not allow '{given.text}'; {also}"
            self._say(given, message, path, "renamed", "warning")

    def _say(self, given: Value, message: str, path: DocumentPath, code: str, severity: Severity) -> None:
        self._problems.add(Problem(code, message, given.position, given.field, severity=severity))
        self._comment(path, f"{given.field}: {message}")

    def _comment(self, path: DocumentPath, text: str) -> None:
        texts = self._comments.setdefault(path, [])
        if text not in texts:
            texts.append(text)


def _is_elsewhere(folder: Value) -> bool:
    """Return whether a folder is a URI, or below a variable, and not a directory of this machine."""
    return "://" in folder.text or folder.text.startswith("$")


def _quoted(text: str) -> str:
    """Quote a text as one word of a shell."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _quoted_folder(text: str) -> str:
    """Quote a URI as one word of a shell; the platform's own variable at its start stays a variable."""
    match = _DEFAULT_FS.match(text)
    return f'"$PAI_DEFAULT_FS_URI"{_quoted(text[match.end() :])}' if match else _quoted(text)
