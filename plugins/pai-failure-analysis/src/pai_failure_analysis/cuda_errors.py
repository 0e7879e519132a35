"""Errors of CUDA as PyTorch raises them: the rules know these words.

Every program puts its own words around CUDA's, or tells only the number: ``GPUassert: out of memory a.cu 9``,
``call to cuInit returned error 100``.
"""

from typing import Any

from pai_failure_analysis import regex
from pai_failure_analysis.last_words import MOST_BYTES, begin_of_end

_BY_NUMBER = {
    2: b"out of memory",
    3: b"initialization error",
    9: b"invalid configuration argument",
    35: b"CUDA driver version is insufficient for CUDA runtime version",
    38: b"no CUDA-capable device is detected",
    46: b"all CUDA-capable devices are busy or unavailable",
    77: b"an illegal memory access was encountered",
    98: b"invalid device function",
    100: b"no CUDA-capable device is detected",
    101: b"invalid device ordinal",
    200: b"no kernel image is available for execution on the device",
    209: b"no kernel image is available for execution on the device",
    214: b"uncorrectable ECC error encountered",
    220: b"uncorrectable NVLink error detected during the execution",
    222: b"the provided PTX was compiled with an unsupported toolchain",
    700: b"an illegal memory access was encountered",
    701: b"too many resources requested for launch",
    702: b"the launch timed out and was terminated",
    710: b"device-side assert triggered",
    715: b"an illegal instruction was encountered",
    716: b"misaligned address",
    719: b"unspecified launch failure",
    720: b"too many blocks in cooperative launch",
    802: b"system not yet initialized",
    803: b"system has unsupported display driver / cuda driver combination",
    804: b"CUDA driver version is insufficient for CUDA runtime version",
}
"""What CUDA says of a number, or of another error that is mended alike."""

_WORDS = (
    r"out of memory(?:[^:\w]|: ?[^\d\s]|:?\s*\z)"  # and not how often
    r"|no CUDA-capable device"
    r"|(?:initialization|unknown) error"
    r"|MPS (?:client|server)"
    r"|invalid (?:(?:configuration |pitch )?argument|resource handle|program counter|source)\b"
    r"|invalid device (?:context|function|pointer|symbol)\b"
    r"|misaligned address"
    r"|too many blocks in cooperative launch"
    r"|operation (?:not (?:supported|permitted)|failed due to a previous error)"
    r"|peer (?:access is not supported|mapping resources exhausted)"
    r"|context is destroyed"
    r"|(?:named|shared object) symbol not found"
    r"|hardware stack error"
    r"|driver shutting down"
    r"|the remote procedural call"
    r"|a PTX JIT compilation failed"
    r"|PTX JIT compiler library not found"
)
"""The first words of CUDA's messages that other programs may print for other reasons, too."""

_BEFORE_WORDS = (
    r"(?:(?:Runtime|Accelerator)Error: )?\b(?:CUDA|Cuda|cuda|GPU|Gpu)"
    r"(?:[ _-]?(?:[Rr]untime|[Dd]river|API|SAFE))*"
    r"[ _-]?(?:(?:[Ee]rror|ERROR|[Ff]ailure|CALL|assert)\b|[Ee]xception ?[:(])"
    r"|\b(?:cuda|cutil|checkCuda)\w+\(\) (?:failed|Runtime)"
    r"|Gpu API call"
    r"|Cuda (?:Runtime|Driver)\b"
    r"|(?:Error:?|\[Fatal\]) \[CUDA\]"
    r"|code: \d+, reason:"
    r"|error == cudaSuccess"
    r"|CUDA [\w ]{0,24}failed with"
    r"|GpuBuffer::\w+ failed"
    r"|\b(?:CUDA|cuda) (?:RT |[Dd]river |[Rr]untime )?(?:API )?call ['\"`]"
)
_BEFORE_NUMBER = (
    r"\b(?:CUDA|Cuda|cuda)(?: [Dd]river| [Rr]untime)?(?: API)? ?(?:[Ee]rror|[Ff]ailure)(?: code)?[ =:(#]{1,4}"
    r"|\bCUDA initialization failure with error:? "
    r"|\bcuda execution failed with error "
    r"|\bcu(?:da)?[A-Z]\w+(?:\([^()\n]*\))? (?:failed|returned)"
    r"(?: with)? (?:an )?(?:error|status)(?: code)?:? "
    r"|\bcudaError_t "
    r"|\bCudaAPIError: \["
)
"""How programs say that CUDA failed."""

_SAID = (
    rf"((?:{_BEFORE_WORDS})[^\n]*?[ :(,!)\]'\"`]|\(error code )({_WORDS})"
    rf"|((?:{_BEFORE_WORDS})[^\n]*(?::|:\d+:?|line \d+)[ ]*\n(?:[^\n]*?[ :])?)({_WORDS})"
)
_NUMBERED = (
    rf"((?:{_BEFORE_NUMBER})0*)(\d{{1,3}})"
    r"(?:\)? ?[\],:;\n]|\. | (?:in|at|from|invalid) | ['\"]| -| \(|\)?\s*\z)"  # and not so many
)
"""What a program says: CUDA's words in the same line or, after a colon or a place in its source, in the next
one; or a number. In one expression, they would take time in proportion to the square of the length of a line.
"""

_RAISED = b"RuntimeError: CUDA error: "
_NOT_RAISED = (b" codes", b"Failed call to cuInit")
"""PyTorch's prefix for CUDA errors, and texts that show that a message is no failure: it is part of a list
of error codes, or TensorFlow goes on after it."""


def as_raised(log: bytes) -> bytes:
    """Return a log with PyTorch's message inserted in each line at its end that reports a CUDA error."""
    begin = begin_of_end(log)
    if len(log) - begin > 2 * MOST_BYTES:
        return log  # a line as long as this is no message, and would grow sevenfold
    end = regex.replaced(_SAID, _with_words, log[begin:])
    return log[:begin] + regex.replaced(_NUMBERED, _with_number, end)


def _with_words(found: Any) -> bytes:
    """Return a match of `_SAID` with what PyTorch would raise before CUDA's words."""
    before, words = found[1] or found[3], found[2] or found[4]
    if before.endswith(b"Error: CUDA error: ") or any(map(before.__contains__, _NOT_RAISED)):
        return bytes(found[0])
    # Of PyTorch, these words tell that CUDA could not be initialized; other programs say so at any time.
    is_unknown = words.startswith(b"unknown error")
    raised: bytes = before + (_RAISED.replace(b"error", b"driver error") if is_unknown else _RAISED) + words
    return raised


def _with_number(found: Any) -> bytes:
    """Return a match of `_NUMBERED` with what PyTorch would raise after the number."""
    whole: bytes = found[0]
    at = len(found[1]) + len(found[2])
    said = _BY_NUMBER.get(int(found[2]))
    return whole[:at] + b" " + _RAISED + said + whole[at:] if said else whole
