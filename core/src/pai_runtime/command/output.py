"""What people and programs are told, escaped, and in the forms of the runtime's own commands."""

from pai_document.amounts import counted, size_text
from pai_document.printable import printable
from pai_runtime.terminal.output import (
    columns,
    flush,
    report,
    report_problems,
    say,
    write_bytes,
    write_json,
    write_lines,
)
from pai_runtime.terminal.table import table
from pai_runtime.terminal.text import some

__all__ = [
    "columns",
    "counted",
    "flush",
    "printable",
    "report",
    "report_problems",
    "say",
    "size_text",
    "some",
    "table",
    "write_bytes",
    "write_json",
    "write_lines",
]
