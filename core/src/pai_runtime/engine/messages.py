"""Texts for people: escaped where they come from others, in the words of the runtime; errors of requests.

The values of the job's secrets are hidden in `server_text`; engines `hide` what else they send and nobody is
to see, such as a token.
"""

from pai_document.amounts import size_text
from pai_document.printable import printable
from pai_document.problems import Severity, listed, near_miss
from pai_runtime.engines.hidden import cut, hide, hide_authorization, server_text
from pai_runtime.runs.errors import RequestError
from pai_runtime.terminal.output import report

__all__ = [
    "RequestError",
    "Severity",
    "cut",
    "hide",
    "hide_authorization",
    "listed",
    "near_miss",
    "printable",
    "report",
    "server_text",
    "size_text",
]
