"""The init step that reads the job of the pod."""

from pai_document.document import parse_document
from pai_document.problems import problem_lines
from pai_document.value import Value
from pai_pod.config_files import find_file, given_document, read_text
from pai_pod.errors import InitFailed
from pai_pod.given_run import JOB_FILE, given_job, given_overrides
from pai_pod.pod_secrets import job_secrets
from pai_pod.steps import LoadedJob, PlatformJob, Pod, UnknownPlatform
from pai_runtime.definitions import RESOLVED
from pai_runtime.job.load import load_job, load_task
from pai_runtime.job.model import Job
from pai_runtime.job.overrides import NO_OVERRIDES
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.planning import job_plugins, planned_roles
from pai_task.exit_codes import INIT_FAILED


def run(pod: Pod, platform: PlatformJob | None, unknown: UnknownPlatform | None) -> LoadedJob:
    """Load the job from the platform or the pod's configuration, else the task of a pod without a job."""
    secrets, plugins = job_secrets(pod.directories), job_plugins(pod.host)
    given = given_job(pod.directories) if pod.peers else None
    text = read_text(given) if given else platform.job_file if platform else None
    accepted_by = platform if pod.is_command_given else None
    if text is not None:
        if not given or not given.is_relative_to(pod.directories.secrets):
            pod.runtime.write(JOB_FILE, text, sync=False)
        called = pod.peers.job_file if pod.peers else ""
        path = called or str(pod.directories.runtime / JOB_FILE)
        document = parse_document(text, path, pod.problems if accepted_by else None)
        overrides = given_overrides(pod.directories) if pod.peers else NO_OVERRIDES
        lock = find_file(pod.directories.configs, RESOLVED)
        definitions = JobDefinitions(pod.host, None, lock)
        job = load_job(document, secrets, plugins, pod.problems, overrides, definitions)
    else:
        name = pod.environment.get("PAI_JOB_NAME") or pod.environment.get("HOSTNAME") or "job"
        role = pod.environment.get("PAI_CURRENT_TASK_ROLE_NAME") or "taskrole"
        job = load_task(_runtime_config(pod, platform, unknown), name, role, secrets, plugins, pod.problems)
    roles = planned_roles(job, pod.host, pod.problems)
    if accepted_by:
        _tolerate(pod, job, accepted_by)
    pod.problems.check()
    pod.log.say(*problem_lines(pod.problems.in_order))
    return LoadedJob(job, tuple(roles))


def _tolerate(pod: Pod, job: Job, platform: PlatformJob) -> None:
    """Turn errors of the job into warnings if they cannot affect this task."""
    from pai_pod.accepted_job import tolerate_what_is_not_used  # noqa: PLC0415 - of OpenPAI's pods alone
    from pai_pod.placement import UnknownTask  # noqa: PLC0415

    try:
        role, _ = platform.task(job, pod)
    except UnknownTask as error:
        raise InitFailed(INIT_FAILED, str(error)) from None
    tolerate_what_is_not_used(job, job.roles[role], pod.host, pod.problems)


def _runtime_config(pod: Pod, platform: PlatformJob | None, unknown: UnknownPlatform | None) -> Value:
    root = given_document(pod.environment, "RUNTIME_CONFIG", pod.directories, "runtime_plugin.yaml")
    if root is None:
        where = " or ".join(str(folder / "runtime_plugin.yaml") for folder in pod.directories.configs)
        found = "a Framework without that annotation" if platform else "no Framework"
        found += f" ({unknown.reason})" if unknown else ""
        framework = "a Framework with the job in its annotation 'config', read by frameworkParser"
        expected = f"{framework}, RUNTIME_CONFIG, or {where}"
        raise InitFailed(
            INIT_FAILED,
            f"cannot tell what the task runs: expected {expected}, found {found} and none of the others",
        )
    return root
