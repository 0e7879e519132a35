"""What NVIDIA's Xid numbers mean, and what it says is to be done at once.

From the catalogue in NVIDIA's "Xid Errors", for A100 and newer, without the numbers that it tells to ignore.
"""

import re
from collections.abc import Iterable

from pai_failure_analysis.rules import Rule

RESTART = "restart the program"
RESET = "reset the GPU"
RESTART_MACHINE = "restart the machine"
INSPECT = "have the machine looked at"

CATALOGUE = {
    RESTART: {
        8: "the GPU stopped processing",
        **dict.fromkeys((11, 25, 32), "the commands sent to the GPU were invalid"),
        13: "exception in a kernel",
        31: "memory page fault",
        **dict.fromkeys((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "error of a copy engine"),
        43: "the program's channel was reset",
        45: "the program's work was removed, after another error or because it was killed",
        **dict.fromkeys((60, 68, 82, 83, 84, 86, 88, 89), "error of a video engine"),
        **dict.fromkeys((*range(96, 106), 139, 142), "error of a video engine"),
        69: "error in the class of a graphics engine",
        80: "the data sent to the GPU was damaged",
        94: "memory error that was contained: only the program that had it must end",
    },
    RESET: {
        46: "the GPU stopped processing",
        48: "double-bit ECC error",
        61: "internal micro-controller warning",
        62: "the internal micro-controller halted",
        64: "a row of memory could not be remapped",
        74: "error of an NVLink",
        95: "memory error that was not contained",
        109: "timeout of a context switch",
        110: "security fault",
        119: "no answer from the GPU's system processor (GSP)",
        120: "error of the GPU's system processor (GSP)",
        136: "an NVLink could not be trained",
        140: "ECC error that was not recovered",
        143: "the GPU could not be initialised",
        **dict.fromkeys(range(144, 151), "error of an NVLink"),
        154: "the driver says what the GPU needs to recover",
        155: "error of an NVLink, reported by software",
        156: "a resource of the GPU was retired",
        158: "fatal timeout of the GPU",
        169: "the internal micro-controller halted",
        171: "details of a double-bit ECC error",
        172: "details of a double-bit ECC error",
    },
    RESTART_MACHINE: {
        79: "the GPU has fallen off the bus",
        151: "a key could not be rotated",
        167: "fatal timeout of PCIe",
    },
    INSPECT: {
        54: "the board's auxiliary power is not connected",
        78: "a vGPU could not be started",
        159: "error between the CPU and the GPU (CHI)",
        168: "errors in write-protected memory",
    },
}  # fmt: skip
"""By NVIDIA's immediate action: number and meaning."""

CONSEQUENCES = (43, 45, 154, 171, 172)
"""Numbers that follow another one."""

MOST = 5
"""Maximum number of Xids that a reason names."""

_XID = re.compile(rb"NVRM: Xid \([^()\n]{1,60}\): ([0-9]{1,4}),")
_ACTIONS = {xid: (words, action) for action, xids in CATALOGUE.items() for xid, words in xids.items()}


def with_meaning(rule: Rule, log: bytes, others: Iterable[int]) -> Rule:
    """Return a rule whose reason says what the Xids mean, those of a log in their order, and `others`.

    A fault of a GPU comes as a burst of lines with several numbers: the first that follows no other is named
    first, with what NVIDIA says is to be done.
    """
    if not any("Xid" in (each.user_log or "") or "nvidiaXid" in each.gpu for each in rule.patterns):
        return rule
    seen = dict.fromkeys([*(int(number) for number in _XID.findall(log)), *others])
    known = [xid for xid in seen if xid in _ACTIONS]
    if not known:
        return rule
    ordered = sorted(known, key=lambda xid: xid in CONSEQUENCES)
    first, *more = (f"{xid} ({_ACTIONS[xid][0]})" for xid in ordered[:MOST])
    then = f", then {', '.join(more)}" if more else ""
    action = _ACTIONS[ordered[0]][1]
    return rule._replace(reason=f"{rule.reason} Xid {first}{then}. NVIDIA's immediate action: {action}.")
