"""The callback that notes what the log of a task shows beside any failure."""

from pai_runtime.plugin import BUNDLE, ShellStep

MOST_BYTES = 10 * 1024 * 1024
"""Size of the end of a log that is searched."""

FIRST_LOOK = (
    "loss.{1,8}(nan|inf)|overflow.{1,20}skipping step|not have many workers|, used: false"
    "|no gpu/tpu found|cuda drivers on your machine|cuda initialization: |cuda is not available"
)
"""A pattern for ``grep -iE`` that finds every log with a note; an interpreter starts for no other one."""

_SCRIPT = f"""\
# note what the log shows
[ -f "$PAI_USER_LOG" ] || exit 0
(
  PATH=$PATH:{BUNDLE}/applets
  last() {{ tail -c {MOST_BYTES} "$PAI_USER_LOG" 2>/dev/null; }}
  if last | LC_ALL=C grep -qiE '{FIRST_LOOK}' 2>/dev/null; then
    last | "$PAI_RUNTIME_PYTHON" -I -m pai_failure_analysis.print_notes
  fi
)
"""

NOTING = ShellStep("taskExits", _SCRIPT, failure_policy="ignore")
