"""Arguments that several commands have, so that they mean the same in all of them."""

from pai_runtime.cli import whole_parser
from pai_runtime.cli.arguments import ON_HELP, RUN_HELP, add_downgrade, add_job, add_json, add_on, add_policy
from pai_runtime.cli.overrides import add_overrides, given_overrides, setting

__all__ = [
    "ON_HELP",
    "RUN_HELP",
    "add_downgrade",
    "add_job",
    "add_json",
    "add_on",
    "add_overrides",
    "add_policy",
    "given_overrides",
    "setting",
    "whole_parser",
]
