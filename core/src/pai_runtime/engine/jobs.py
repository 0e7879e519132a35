"""More of a job: what may be kept of it with a run, its secrets, images, ports, uses, mounts, names."""

from pai_runtime.job.images import JobImage, JobImages
from pai_runtime.job.ports import unnamed_port
from pai_runtime.job.secrets import secret_in, secret_texts, secret_values
from pai_runtime.job.without_secrets import JobFile, job_config
from pai_runtime.plan.asked import asked_mounts, report_unknown_storage, use_location
from pai_runtime.runs.provenance import with_plugins
from pai_task.names import framework_name
from pai_task.paths import VOLUME
from pai_task.placeholders import show
from pai_task.plan import UseRecord

__all__ = [
    "VOLUME",
    "JobFile",
    "JobImage",
    "JobImages",
    "UseRecord",
    "asked_mounts",
    "framework_name",
    "job_config",
    "report_unknown_storage",
    "secret_in",
    "secret_texts",
    "secret_values",
    "show",
    "unnamed_port",
    "use_location",
    "with_plugins",
]
