"""``python -m pai_failure_analysis.print_notes``: print the notes on the log at standard input."""

import sys

from pai_failure_analysis.notes import notes
from pai_failure_analysis.noting import MOST_BYTES

if __name__ == "__main__":
    for note in notes(sys.stdin.buffer.read(MOST_BYTES)):
        sys.stdout.write(f"[NOTE] {note.phrase}: {note.text}\n")
