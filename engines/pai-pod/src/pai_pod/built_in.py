"""The runtime's own init plugins, from FrameworkController's object to the plan of this pod's task.

Each takes what those before it have made, and adds its own to it.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from pai_pod.config_files import find_file, given_document, read_text
from pai_pod.directories import Directories
from pai_pod.errors import InitFailed
from pai_pod.exit_spec import listed_codes
from pai_pod.given_run import JOB_FILE, engine_variables, given_job, given_overrides
from pai_pod.init_log import InitLog
from pai_pod.peers import Peers
from pai_pod.pod_secrets import job_secrets
from pai_runtime.definitions import RESOLVED
from pai_runtime.document.document import parse_document
from pai_runtime.document.problems import Problems, problem_lines
from pai_runtime.document.value import Value
from pai_runtime.host.host import Host
from pai_runtime.job.load import load_job, load_task
from pai_runtime.job.model import Job
from pai_runtime.job.overrides import NO_OVERRIDES
from pai_runtime.job.references import References, Renderer
from pai_runtime.job.secrets import secret_values
from pai_runtime.plan.build import Draft, PlannedRole, Planner
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.environment import Placement, TaskName
from pai_runtime.plan.planning import job_plugins, planned_roles
from pai_runtime.task.exit_codes import INIT_FAILED, INIT_NO_IMAGE, INIT_PORT_TAKEN
from pai_runtime.task.folder import Folder
from pai_runtime.task.placeholders import fill
from pai_runtime.task.plan import Command
from pai_runtime.task.record import field, record, replace

# What not every pod needs is imported where it is.
# ruff: noqa: PLC0415

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pai_pod.framework import Framework

FRAMEWORK_FILE: Final = "framework.json"
"""The file in the directory of init plugins where commands write and read the Framework."""

RENDERER: Final = "userCommandRender"
"""The name of the init plugin that takes the command from the platform."""

_T = TypeVar("_T")


@record(frozen=True)
class Pod:
    """The pod that init works in; `init` and `runtime` are the open directories of these names.

    `peers` says how the tasks reach each other, in a pod that an engine made from a job. `is_command_given`
    means that the platform gives the command of the task, with resolved references.
    """

    environment: Mapping[str, str]
    directories: Directories
    init: Folder
    runtime: Folder
    host: Host
    log: InitLog
    problems: Problems
    peers: Peers | None = None
    is_command_given: bool = False

    @property
    def has_framework(self) -> bool:
        """Whether the pod belongs to FrameworkController."""
        return self.peers is None and bool(self.environment.get("FC_FRAMEWORK_NAME"))

    @property
    def framework_uid(self) -> str:
        """The UID of the Framework that the pod is part of; empty if unknown."""
        return self.environment.get("FC_FRAMEWORK_UID", "")


@record(frozen=True)
class Made:
    """What the init plugins have made so far: at last all that the plan of the task is made of.

    `command` is the platform's, which stands for that of the job.
    """

    framework: "Framework | None" = None
    job: Job | None = None
    addresses: Mapping[TaskName, str] = field(default_factory=dict)
    roles: tuple[PlannedRole, ...] = ()
    draft: Draft | None = None
    command: Command | None = None

    @property
    def secrets(self) -> dict[str, str]:
        """The values of the job's secrets by their paths."""
        return secret_values(self.job.secrets) if self.job else {}


def wait_at_barrier(pod: Pod, made: Made) -> Made:
    """Get the Framework object, once all tasks have an address if they start together."""
    from pai_pod.barrier import BarrierFailed, wait_for_framework
    from pai_pod.framework import read_framework

    framework: Framework | None = None

    def missing(document: bytes) -> list[str]:
        nonlocal framework
        framework = read_framework(document, pod.framework_uid)
        return framework.missing()

    try:
        document = wait_for_framework(pod.environment, missing, pod.log.say)
    except BarrierFailed as error:
        raise InitFailed(error.code, str(error)) from None
    pod.init.write(FRAMEWORK_FILE, document.decode("utf-8", "replace"), sync=False)
    return replace(made, framework=framework)


def parse_framework(pod: Pod, made: Made) -> Made:
    """Read the Framework object that a command has left; the barrier has read its own."""
    if made.framework is not None:
        return made
    from pai_pod.framework import MOST_BYTES, BadFramework, read_framework

    document = pod.init.read(FRAMEWORK_FILE, MOST_BYTES) if pod.init.exists(FRAMEWORK_FILE) else None
    document = _needed(document, "the Framework object", "frameworkBarrier")
    try:
        return replace(made, framework=read_framework(document, pod.framework_uid))
    except BadFramework as error:
        raise InitFailed(INIT_FAILED, f"the Framework object: {error}") from None


def load_config(pod: Pod, made: Made) -> Made:
    """Load the job from the Framework or the pod's configuration, else the task of a pod without a job."""
    if pod.has_framework:
        _needed(made.framework, "the Framework", "frameworkParser")
    secrets, plugins = job_secrets(pod.directories), job_plugins(pod.host)
    given = given_job(pod.directories) if pod.peers else None
    text = read_text(given) if given else made.framework.job_file if made.framework else None
    is_accepted = pod.has_framework and pod.is_command_given
    if text is not None:
        if not given or not given.is_relative_to(pod.directories.secrets):
            pod.runtime.write(JOB_FILE, text, sync=False)
        called = pod.peers.job_file if pod.peers else ""
        path = called or str(pod.directories.runtime / JOB_FILE)
        document = parse_document(text, path, pod.problems if is_accepted else None)
        overrides = given_overrides(pod.directories) if pod.peers else NO_OVERRIDES
        lock = find_file(pod.directories.configs, RESOLVED)
        definitions = JobDefinitions(pod.host, None, lock)
        job = load_job(document, secrets, plugins, pod.problems, overrides, definitions)
    else:
        name = pod.environment.get("PAI_JOB_NAME") or pod.environment.get("HOSTNAME") or "job"
        role = pod.environment.get("PAI_CURRENT_TASK_ROLE_NAME") or "taskrole"
        job = load_task(_runtime_config(pod), name, role, secrets, plugins, pod.problems)
    roles = planned_roles(job, pod.host, pod.problems)
    if is_accepted:
        _tolerate(pod, job)
    pod.problems.check()
    pod.log.say(*problem_lines(pod.problems.in_order))
    return replace(made, job=job, roles=tuple(roles))


def _tolerate(pod: Pod, job: Job) -> None:
    """Turn errors of the job into warnings if they cannot affect this task."""
    from pai_pod.accepted_job import tolerate_what_is_not_used
    from pai_pod.placement import UnknownTask, own_task

    try:
        role, _ = own_task(job, pod.environment)
    except UnknownTask as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    tolerate_what_is_not_used(job, job.roles[role], pod.host, pod.problems)


def find_peers(pod: Pod, made: Made) -> Made:
    """Find the addresses of all tasks, and wait for all of them if they are a gang."""
    from pai_pod.barrier import BarrierFailed
    from pai_pod.peer_barrier import find_addresses
    from pai_pod.placement import UnknownTask, own_task, peer_names

    if pod.peers is None:
        return made
    job = _needed(made.job, "the job", "jobConfig")
    try:
        own, names = own_task(job, pod.environment), peer_names(job, pod.peers)
        addresses = find_addresses(pod.peers, names, own, pod.environment, pod.log.say)
    except UnknownTask as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    except BarrierFailed as error:
        raise InitFailed(error.code, str(error)) from None
    return replace(made, addresses=addresses)


def plan_task(pod: Pod, made: Made) -> Made:
    """Ask each use of a plugin for what it contributes to the plan of this pod's task."""
    from pai_pod.framework_field import BadFramework
    from pai_pod.placement import UnknownTask, own_task

    job = _needed(made.job, "the job", "jobConfig")
    try:
        own = own_task(job, pod.environment)
        placement = _placement(pod, made, job, own)
    except (BadFramework, UnknownTask) as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    draft = Planner(job, pod.host, made.roles, placement, pod.problems).draft(own)
    pod.problems.check()
    pod.log.say(f"the task is {draft.role}-{draft.index}; plugins: {_plugins(draft)}")
    return replace(made, draft=draft)


def _placement(pod: Pod, made: Made, job: Job, own: TaskName) -> Placement:
    from pai_pod.placement import framework_placement, peers_placement, single_placement

    folder = str(pod.directories.runtime)
    if pod.peers:
        variables = engine_variables(pod.peers, own, pod.environment)
        return peers_placement(job, pod.peers, made.addresses, folder, {own: variables})
    if made.framework:
        codes = listed_codes(pod.directories)
        return framework_placement(made.framework, job, pod.environment, folder, codes)
    return single_placement(job, pod.environment, folder)


def check_ports(pod: Pod, made: Made) -> Made:
    """Raise `InitFailed` if another process has a port of this task."""
    from pai_pod.port_check import taken_ports

    if taken := taken_ports(_needed(made.draft, "the ports of the task", "runtimePlugins").place.ports):
        raise InitFailed(INIT_PORT_TAKEN, *taken)
    pod.log.say("all ports of the task are free")
    return made


def check_images(pod: Pod, made: Made) -> Made:
    """Raise `InitFailed` if the image of the task certainly does not exist."""
    job = _needed(made.job, "the job", "jobConfig")
    draft = _needed(made.draft, "the task", "runtimePlugins")
    name = job.roles[draft.role].docker_image
    if name is None:
        pod.log.say("the image is not checked: the job does not name one")
        return made
    from pai_pod.image_check import SECONDS, check_image
    from pai_runtime.network.deadline import Deadline

    problems = Problems(pod.problems.mask)
    prerequisite = job.prerequisites.get((name.text, "dockerimage"))
    image = prerequisite and Renderer(References(job, problems), prerequisite=prerequisite).data(
        prerequisite.value
    )
    if not image or problems.has_errors or not isinstance(image.get("uri"), str):
        pod.log.say("[WARNING] the image is not checked: the job does not say which it is")
        return made
    image = fill({key: image.get(key) for key in ("uri", "auth")}, made.secrets)
    verdict = check_image(image["uri"], image["auth"], Deadline(SECONDS), pod.log.say)
    if verdict.outcome == "missing":
        raise InitFailed(INIT_NO_IMAGE, verdict.message)
    pod.log.say(f"[WARNING] {verdict.message}" if verdict.outcome == "unknown" else verdict.message)
    return made


def render_command(pod: Pod, made: Made) -> Made:
    """Replace the plan's command by the one that the platform gives, if it does."""
    from pai_pod.user_command import VARIABLE, user_command

    job = _needed(made.job, "the job", "jobConfig")
    draft = _needed(made.draft, "the plan", "runtimePlugins")
    script = pod.environment.get(VARIABLE)
    if not script:
        return made
    return replace(made, command=user_command(script, job, draft.role, pod.problems))


INIT_PLUGINS: Final[Mapping[str, Callable[[Pod, Made], Made]]] = {
    "frameworkBarrier": wait_at_barrier,
    "frameworkParser": parse_framework,
    "jobConfig": load_config,
    "runtimePlugins": plan_task,
    "portChecker": check_ports,
    "imageChecker": check_images,
    RENDERER: render_command,
    "peerBarrier": find_peers,
}
"""The runtime's own init plugins by name."""

USUAL: Final = tuple(name for name in INIT_PLUGINS if name != "peerBarrier")
USUAL_WITH_PEERS: Final = ("jobConfig", "peerBarrier", "runtimePlugins")
"""The default init plugins of a pod that an engine has made from a job, in order. It has a network of its
own, in which no port is taken, and its image is pulled before it starts."""

OF_FRAMEWORKS: Final = frozenset({"frameworkBarrier", "frameworkParser"})
"""Init plugins that are skipped in a pod that is not FrameworkController's."""


def _needed(made: _T | None, what: str, maker: str) -> _T:
    if made is None:
        raise InitFailed(INIT_FAILED, f"{what} is missing; list {maker} before this init plugin")
    return made


def _runtime_config(pod: Pod) -> Value:
    root = given_document(pod.environment, "RUNTIME_CONFIG", pod.directories, "runtime_plugin.yaml")
    if root is None:
        where = " or ".join(str(folder / "runtime_plugin.yaml") for folder in pod.directories.configs)
        found = "a Framework without that annotation" if pod.has_framework else "no Framework"
        expected = f"a Framework with the job in its annotation 'config', RUNTIME_CONFIG, or {where}"
        raise InitFailed(
            INIT_FAILED,
            f"cannot tell what the task runs: expected {expected}, found {found} and none of the others",
        )
    return root


def _plugins(draft: Draft) -> str:
    return ", ".join(f"{use.name} ({use.distribution} {use.version})" for use in draft.uses) or "none"
