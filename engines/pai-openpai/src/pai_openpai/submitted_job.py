"""The document of a job for OpenPAI's REST server: what was planned of it, in fields that the server takes.

References are resolved, except those to secrets, which only the pod knows. Prerequisites that have no plugin
are gone with them, apart from images. The others, shared ones too, are the uses of the plan: each role lists
them in their order. What deployments add is part of the commands.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from pai_openpai.submitted_code import MOUNT, PARAMETERS, SubmittedCode
from pai_runtime.engine import Job, Location, Plan, Problems, TaskRole, Value
from pai_runtime.engine.jobs import JobImages, asked_mounts, show, use_location
from pai_runtime.engine.records import TaskName
from pai_runtime.plugin import Mount

PLUGIN_LIST: Final = "com.microsoft.pai.runtimeplugin"

_CODE: Final = "changed-by-openpai"
_STORAGES: Final = ("storages", "requireStorages")
_OWN_FIELDS: Final = frozenset(
    {"name", "type", "plugin", "require", "requireStorages", "parameters", "plugin_params", "failurePolicy"}
    | {"protocolVersion", "version", "contributor", "description", "auth"}
)
"""Fields of a prerequisite with a meaning of their own: a parameter of such a name stands below others."""
_HERE_ONLY: Final = (PLUGIN_LIST, "reference_prerequisites", "storages", "code")
"""Fields of ``extras`` that are written anew, or mean something on this machine only."""
_TYPES: Final = ("script", "output", "data")
"""Types of prerequisites that OpenPAI knows beside images."""
_REFERENCE: Final = re.compile(r"<%\s*(?:\$|this\b|parameters\b|secrets\b)")
_TO_SECRET: Final = re.compile(r"<% \$secrets(?:\.[\w-]+)+ %>")
_SHOWN: Final = re.compile(r"<%.*?%>", re.DOTALL)
_BOM: Final = "\ufeff"


def submitted_job(
    job: Job,
    plans: Mapping[TaskName, Plan],
    storages: Collection[str] | None,
    code: SubmittedCode | None,
    problems: Problems,
) -> dict[str, Any]:
    """Return the document of a job without its secrets.

    What the server would change in it, or the pod read otherwise, is reported. See `submitted_text`.
    """
    return _Submission(job, plans, storages, code, problems).document()


class _Submission:
    def __init__(
        self,
        job: Job,
        plans: Mapping[TaskName, Plan],
        storages: Collection[str] | None,
        code: SubmittedCode | None,
        problems: Problems,
    ) -> None:
        self._job = job
        self._plans = plans
        self._known_storages = storages
        self._code = code
        self._problems = problems
        self._uses: dict[str, dict[str, Any]] = {}
        """The prerequisites that are uses of plugins, by name."""

    def document(self) -> dict[str, Any]:
        job = self._job
        storages = self._storages()
        code = ""
        if self._code is not None:
            code = self._code.commands(storages.get(self._code.storage, {}).get("mountPath", ""))
        roles = {each.name: self._role(each, code) for each in job.roles.values()}
        document: dict[str, Any] = {"protocolVersion": 2, "name": job.name, "type": "job"}
        for key in ("version", "contributor", "description"):
            value = job.value.get(key)
            if value is not None and value.data is not None:
                document[key] = value.text
        document["prerequisites"] = [*self._images(), *self._uses.values()]
        if job.retries:
            document["jobRetryCount"] = job.retries
        cluster = job.value.get("defaults", "virtualCluster")
        if cluster and cluster.data:
            document["defaults"] = {"virtualCluster": job.virtual_cluster}
        document["extras"] = self._extras(list(storages.values()))
        if parameters := self._code.parameters() if self._code is not None else {}:
            document[PARAMETERS] = parameters
        return {**document, "taskRoles": roles}

    def _role(self, role: TaskRole, code: str) -> dict[str, Any]:
        resources: dict[str, Any] = {"cpu": role.cpu, "memoryMB": role.memory_mb, "gpu": role.gpu}
        completion = {"minFailedInstances": role.min_failed, "minSucceededInstances": role.min_succeeded}
        options = role.value.get("extraContainerOptions")
        made: dict[str, Any] = {
            "instances": role.instances,
            "completion": {key: count for key, count in completion.items() if count is not None},
            "taskRetryCount": role.retries,
            "dockerImage": role.docker_image.text if role.docker_image else "",
            "prerequisites": list(self._prerequisites(role)),
            "extraContainerOptions": _without_nulls(options.data) if options else {},
            "resourcePerInstance": {**resources, "ports": dict(role.ports)} if role.ports else resources,
            "commands": [code + self._command(role)],
        }
        return {key: value for key, value in made.items() if value or key == "dockerImage"}

    def _command(self, role: TaskRole) -> str:
        script = self._job.uses[role.name].command.script.strip()
        if (start := script.find("<%")) >= 0:
            found = script[start : start + 3]  # not more of it, as it may be a secret
            where = next((each for each in role.commands if found in each.text), role.value)
            message = (
                f"OpenPAI takes '{found}' for a reference, and drops or refuses it; write it so that '<' and"
                " '%' are apart, as in '<''%'"
            )
            self._problems.add(where.problem(_CODE, message, found))
        if script.startswith(_BOM) or script.endswith(_BOM):
            message = "begins or ends with U+FEFF, which OpenPAI drops; remove it"
            self._problems.add(role.value.at(("commands",)).problem(_CODE, message))
        shown: str = self._shown(script, role.value)
        return shown

    def _prerequisites(self, role: TaskRole) -> Iterator[str]:
        """Yield the names of the prerequisites that are a role's uses of plugins, in their order."""
        for use in self._job.uses[role.name].uses:
            if is_of_storage(use.value) or _key_above(use.value) == PLUGIN_LIST:
                continue
            made = self._prerequisite(use.name, use.plugin, use.parameters, use.failure_policy, use.value)
            if self._uses.setdefault(use.name, made) != made:
                message = (
                    f"'{use.name}' is not the same in all task roles, or there are two of this name; on"
                    " OpenPAI each has to be a prerequisite with a name of its own"
                )
                self._problems.add(use.value.problem(_CODE, message, f"'{use.name}'"))
            yield use.name

    def _prerequisite(
        self, name: str, plugin: str, parameters: Mapping[str, Any], policy: str, where: Value
    ) -> dict[str, Any]:
        shown = self._shown(parameters, where)
        kind, uri = where.get("type"), shown.get("uri")
        kinds = ("data",) if isinstance(uri, list) else ("script", "output") if uri else _TYPES
        below = {key: each for key, each in shown.items() if key in _OWN_FIELDS}
        return {
            "name": name,
            "type": kind.text if kind and kind.text in kinds else kinds[0],
            "plugin": plugin,
            **({"failurePolicy": policy} if policy != "fail" else {}),
            **{key: each for key, each in shown.items() if key not in below},
            **({"parameters": below} if below else {}),
        }

    def _images(self) -> Iterator[dict[str, Any]]:
        images = JobImages(self._job, self._problems)
        made: dict[str, dict[str, Any]] = {}
        for role in self._job.roles.values():
            image = images.of(role)
            if image is None or role.docker_image is None:
                continue
            auth = self._shown(_without_nulls(image.auth or {}), image.value)
            fields = {"uri": self._shown(image.uri, image.value), **({"auth": auth} if auth else {})}
            self._check_image(image.value, fields["uri"], auth)
            name = role.docker_image.text
            made[name] = {"name": name, "type": "dockerimage", **fields}
        yield from made.values()

    def _check_image(self, image: Value, uri: Any, auth: Mapping[str, Any]) -> None:
        for path, each in ((("uri",), uri), *((("auth", key), each) for key, each in auth.items())):
            if not isinstance(each, str):
                message = "expected text, found another type; write the value that is referred to in quotes"
                self._problems.add(image.at(path).problem(_CODE, message))
        password = auth.get("password")
        if password and "$secrets" not in str(password):
            message = (
                "all users of the cluster can read this password; give it in the section secrets, and write"
                " <% $secrets.NAME %> here"
            )
            self._problems.add(image.at(("auth", "password")).problem("secrets-shown", message))

    def _extras(self, storages: list[dict[str, Any]]) -> dict[str, Any]:
        given = self._job.value.get("extras")
        written = given.data if given is not None and isinstance(given.data, dict) else {}
        extras = {key: each for key, each in written.items() if key not in _HERE_ONLY}
        if self._job.strict_callbacks:
            extras["strictCallbacks"] = True
        if preemption := self._on_preemption(written.get("onPreemption")):
            extras["onPreemption"] = preemption
        if plugins := self._plugins():
            extras[PLUGIN_LIST] = plugins
        if storages:
            extras["storages"] = storages
        return {**extras, "submitFrom": "pai-runtime"}

    def _plugins(self) -> list[dict[str, Any]]:
        """Return the uses of plugins of ``extras``, in their order; equal ones of several roles are one."""
        job = self._job
        made: list[dict[str, Any]] = []
        all_uses = [(role, use) for role in job.roles for use in job.uses[role].uses]
        for extra in job.extras:
            alike: list[tuple[dict[str, Any], list[str]]] = []
            for role, use in all_uses:
                if use.value is not extra.value:
                    continue
                fields: dict[str, Any] = {"plugin": use.plugin.removeprefix(f"{PLUGIN_LIST}.")}
                if use.parameters:
                    fields["parameters"] = self._shown(use.parameters, use.value)
                if use.failure_policy != "fail":
                    fields["failurePolicy"] = use.failure_policy
                roles = next((roles for known, roles in alike if known == fields), None)
                if roles is None:
                    alike.append((fields, [role]))
                else:
                    roles.append(role)
            made += [{**fields, "taskroles": roles} for fields, roles in alike]
        return made

    def _storages(self) -> dict[str, dict[str, Any]]:
        """Return the storages of all plans, and that of the code: OpenPAI mounts them in all tasks."""
        made: dict[str, dict[str, Any]] = {}
        for mount, where in self._mounts():
            storage = _storage(mount)
            if made.setdefault(mount.source, storage) != storage:
                message = (
                    f"the storage '{mount.source}' is mounted in two ways, and OpenPAI mounts it once in"
                    f" all tasks: use {made[mount.source]['mountPath']} for both"
                )
                self._problems.add(where.problem(_CODE, message, found=mount.path))
        if self._code is not None and (name := self._code.storage) and name not in made:
            made[name] = {"name": name, "mountPath": MOUNT, "readOnly": True}
            self._check_beside_code(name)
        return made

    def _check_beside_code(self, name: str) -> None:
        """Report what is mounted where all tasks have the storage of this name for their code."""
        for mount, where in self._mounts():
            path = PurePosixPath(mount.path)
            if path.is_relative_to(MOUNT) or PurePosixPath(MOUNT).is_relative_to(path):
                message = (
                    f"mounted at {mount.path}, but tasks have the storage '{name}' with their code at"
                    f" {MOUNT}; use a path that is neither above nor below that"
                )
                self._problems.add(where.problem("wrong-code-storage", message, found=mount.path))

    def _mounts(self) -> Iterator[tuple[Mount, Location]]:
        """Yield the mounts of storages in all plans, with the locations in the job that ask for them."""
        for role, mount, use in asked_mounts(self._plans):
            is_known = self._known_storages is None or mount.source in self._known_storages
            if mount.kind == "storage" and (is_known or use.failure_policy != "ignore"):
                yield mount, use_location(self._job, role, use, mount.source)

    def _on_preemption(self, written: Any) -> dict[str, Any]:
        """Return ``onPreemption`` with its references resolved."""
        if not isinstance(written, dict):
            return {}
        where = self._job.value.at(("extras", "onPreemption"))
        found = [uses.command.on_preemption for uses in self._job.uses.values()]
        scripts = {each.script for each in found if each}
        if len(scripts) > 1:
            message = "its commands are not the same in all task roles, as they have to be on OpenPAI"
            self._problems.add(where.problem(_CODE, message))
        script = self._shown(scripts.pop().strip() if scripts else "", self._job.value)
        return {**written, **({"commands": [script]} if script else {})}

    def _shown(self, data: Any, where: Value) -> Any:
        """Return data with references to secrets in the place of placeholders."""
        if isinstance(data, Mapping):
            return {str(key): self._shown(each, where) for key, each in data.items()}
        if isinstance(data, (list, tuple)):
            return [self._shown(each, where) for each in data]
        if not isinstance(data, str):
            return data
        text = show(data)
        if literal := _REFERENCE.search(data):
            message = (
                f"contains '{literal[0]}' as text, which the pod would take for a reference; write it so that"
                " '<' and '%' are apart"
            )
            self._problems.add(where.problem(_CODE, message, literal[0]))
        elif any(not _TO_SECRET.fullmatch(each) for each in _SHOWN.findall(text) if "$secrets" in each):
            message = "names a secret by a key that no reference can have; use letters, digits, '-' and '_'"
            self._problems.add(where.problem(_CODE, message))
        return text


def is_of_storage(value: Value) -> bool:
    """Return whether a use stands in a list of storages, which OpenPAI mounts itself."""
    return _key_above(value) in _STORAGES


def _key_above(value: Value) -> str | int | None:
    return value.above.key if value.above else None


def _storage(mount: Mount) -> dict[str, Any]:
    """Return a storage of ``extras`` for a mount; only the user's directory in it if it has a sub-path."""
    storage: dict[str, Any] = {"name": mount.source, "mountPath": mount.path}
    if mount.sub_path:
        storage["share"] = False
    if mount.read_only:
        storage["readOnly"] = True
    return storage


def _without_nulls(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in data.items() if each is not None}
