"""A language server for job files: when one is opened or saved, it tells what ``validate`` finds in it."""

import asyncio
import json
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lsprotocol.types import (
    TEXT_DOCUMENT_DID_OPEN,
    TEXT_DOCUMENT_DID_SAVE,
    Diagnostic,
    DiagnosticSeverity,
    DidOpenTextDocumentParams,
    DidSaveTextDocumentParams,
    Position,
    PublishDiagnosticsParams,
    Range,
)
from pygls.lsp.server import LanguageServer

_WITHIN: Final = 60.0
"""Seconds for one validation."""
_JOB: Final = re.compile(r"^(?:protocolVersion|taskRoles)\s*:", re.MULTILINE)
_SEVERITIES: Final = {
    "error": DiagnosticSeverity.Error,
    "warning": DiagnosticSeverity.Warning,
    "note": DiagnosticSeverity.Information,
}


def serve(validate: Sequence[str]) -> None:
    """Serve an editor over standard input and output until it ends that.

    `validate` is the command that prints what is wrong with the job file that is added to it, as JSON.
    """
    server, turn = LanguageServer("pai-runtime", "1"), asyncio.Lock()

    @server.feature(TEXT_DOCUMENT_DID_OPEN)
    @server.feature(TEXT_DOCUMENT_DID_SAVE)
    async def look(changed: DidOpenTextDocumentParams | DidSaveTextDocumentParams) -> None:
        uri = changed.text_document.uri
        document = server.workspace.get_text_document(uri)
        async with turn:  # so that the last answer is about the last text
            is_job = _JOB.search(document.source)
            problems = await _validated(validate, Path(document.path)) if is_job else []
        found = list(_diagnostics(problems, document.path, document.lines))
        server.text_document_publish_diagnostics(PublishDiagnosticsParams(uri, found))

    server.start_io()


async def _validated(validate: Sequence[str], path: Path) -> Sequence[Mapping[str, Any]]:
    started = await asyncio.create_subprocess_exec(
        *validate, str(path), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, cwd=path.parent
    )
    try:
        output, _ = await asyncio.wait_for(started.communicate(), _WITHIN)
        problems: Sequence[Mapping[str, Any]] = json.loads(output)["problems"]
    except asyncio.TimeoutError:
        started.kill()
        problems = [{"message": f"pai-runtime validate did not end within {_WITHIN:g} seconds"}]
    except (ValueError, KeyError):
        problems = [{"message": "pai-runtime validate failed; run it in a terminal"}]
    return problems


def _diagnostics(
    problems: Sequence[Mapping[str, Any]], path: str, lines: Sequence[str]
) -> Iterator[Diagnostic]:
    """Yield what an editor shows; a problem of another file, such as a definition, is at the first line."""
    for problem in problems:
        at = problem.get("line", 0) if problem.get("file") == path else 0
        text = lines[at - 1].rstrip("\n") if 0 < at <= len(lines) else ""
        column = problem.get("column", 1) - 1 if text else 0
        start, end = (Position(max(at - 1, 0), _utf16(text[:until])) for until in (column, len(text)))
        suggestion = f"; did you mean {problem['suggestion']}?" if "suggestion" in problem else ""
        elsewhere = f"{problem['file']}: " if problem.get("file", path) != path else ""
        yield Diagnostic(
            Range(start, end),
            f"{elsewhere}{problem['message']}{suggestion}",
            severity=_SEVERITIES.get(problem.get("severity", "error")),
            code=problem.get("code"),
            source="pai-runtime",
        )


def _utf16(text: str) -> int:
    """Return the length of a text in the units in which editors count columns."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
