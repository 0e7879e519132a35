"""Texts for people: escaped where they come from others, and in the words of the runtime."""

from pai_runtime.document.amounts import size_text
from pai_runtime.document.printable import printable
from pai_runtime.document.problems import listed, near_miss
from pai_runtime.terminal.output import report

__all__ = ["listed", "near_miss", "printable", "report", "size_text"]
