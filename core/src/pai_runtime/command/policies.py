"""Policies, and entries in them for plugins as they are installed."""

from pai_runtime.cli.plugin_entries import named, put
from pai_runtime.host.code import Code
from pai_runtime.host.metadata import Distribution, normalized
from pai_runtime.host.policy import freeze, read_policy
from pai_runtime.host.policy_text import Entry

__all__ = ["Code", "Distribution", "Entry", "freeze", "named", "normalized", "put", "read_policy"]
