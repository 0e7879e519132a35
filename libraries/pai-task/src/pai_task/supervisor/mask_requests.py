"""Values that processes of a task ask to have masked by writing them to ``$PAI_MASK``."""

from __future__ import annotations

import os

from pai_task.masking import MOST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pai_task.masking import Masks


class MaskRequests:
    """A reader of the values to mask, one per line, which are hidden from then on.

    A last line without a newline counts as far as it has come.
    """

    def __init__(self, masks: Masks, say: Callable[[str], None]) -> None:
        self._masks = masks
        self._say = say
        self._rest = b""
        self._left = MOST_BYTES

    def feed(self, data: bytes) -> None:
        """Take the next bytes that were written."""
        if self._left < 0:
            return
        self._left -= len(data)
        if self._left < 0:
            self._say(
                f"[ERROR] more than {MOST_BYTES} bytes were written to $PAI_MASK; "
                "what came after that is not masked"
            )
            data = data[: self._left]
        lines = (self._rest + data).split(b"\n")
        self._rest = lines[-1]
        try:
            self._masks.add(os.fsdecode(line).removesuffix("\r") for line in lines)
        except ImportError as error:
            self._say(
                f"[ERROR] what was written to $PAI_MASK is not masked: the task has removed {error.name}"
            )
