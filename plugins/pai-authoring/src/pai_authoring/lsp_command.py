"""``pai-runtime lsp``: a language server, which says of job files in an editor what ``validate`` says."""

import argparse
import sys

from pai_runtime.plugin import Output

_CANNOT_RUN = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, which has none."""


def main(_: argparse.Namespace, output: Output) -> int:
    """Return exit status 0 when the editor ends it, or 2 if what it needs is not installed."""
    try:
        from pai_authoring.language_server import serve  # noqa: PLC0415 - only this command needs its packages
    except ModuleNotFoundError as error:
        output.report(f"pai-runtime lsp: needs {error.name}; install pai-authoring[lsp]")
        return _CANNOT_RUN
    own = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv[1:])]
    serve([*own, "validate", "--json"])
    return 0
