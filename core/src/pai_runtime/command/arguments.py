"""Arguments that several commands have, so that they mean the same in all of them."""

from pai_runtime.cli.arguments import add_job, add_json, add_policy
from pai_runtime.cli.overrides import add_overrides, given_overrides, setting

__all__ = ["add_job", "add_json", "add_overrides", "add_policy", "given_overrides", "setting"]
