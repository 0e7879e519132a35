"""What people and programs are told, escaped, and in the forms of the runtime's own commands."""

from pai_runtime.terminal.output import columns, report, report_problems, say, write_json, write_lines
from pai_runtime.terminal.table import table

__all__ = ["columns", "report", "report_problems", "say", "table", "write_json", "write_lines"]
