"""Jobs, and the plugins that they name, under the policies in force."""

from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.load import load_job
from pai_runtime.job.model import PLUGIN_PREFIX, plugin_id
from pai_runtime.plan.planning import job_plugins, planned_roles

__all__ = [
    "PLUGIN_PREFIX",
    "Host",
    "Plugin",
    "Unavailable",
    "given_host",
    "job_plugins",
    "load_job",
    "planned_roles",
    "plugin_id",
]
