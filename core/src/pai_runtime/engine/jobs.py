"""More of a job: its file as it may be kept with a run, the values of its secrets, and names of its ports."""

from pai_runtime.job.ports import unnamed_port
from pai_runtime.job.secrets import secret_values
from pai_runtime.job.without_secrets import JobFile, job_config

__all__ = ["JobFile", "job_config", "secret_values", "unnamed_port"]
