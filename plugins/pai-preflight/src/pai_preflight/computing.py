"""A computation on each NVIDIA GPU, by the driver's own library: images without CUDA have that too.

A kernel fills memory with numbers that depend on their place, and another one computes them again and counts
those that differ. The library may never return on a GPU that has failed, so a process of its own calls it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIBRARIES: Final = (
    "libcuda.so.1",
    # A loader other than the image's does not know where the image has its libraries.
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
)
_SECONDS: Final = 60
"""Timeout in seconds of all GPUs together: the driver may need some for the first program on each of them."""
_WORDS: Final = 64 << 20
"""Words of 4 bytes that are written and read; fewer, if less memory is free."""
_FEW: Final = 256
"""Words that this program computes as well: a GPU may be wrong in the same way twice."""
_ROUNDS, _FACTOR, _TERM = 64, 1664525, 1013904223
_BLOCKS, _THREADS = 1024, 256
_NO_DEVICE: Final = 100
_MOST_BYTES: Final = 65536
_DONE: Final = b"done\n"

_KERNEL: Final = f"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry check(.param .u64 words, .param .u32 count, .param .u64 wrong, .param .u32 writes)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<13>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [words];
    ld.param.u32 %r1, [count];
    ld.param.u64 %rd2, [wrong];
    ld.param.u32 %r2, [writes];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    mov.u32 %r7, %nctaid.x;
    mul.lo.u32 %r8, %r7, %r4;
WORD:
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra END;
    mov.u32 %r9, %r6;
    mov.u32 %r10, 0;
ROUND:
    mul.lo.u32 %r9, %r9, {_FACTOR};
    add.u32 %r9, %r9, {_TERM};
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p2, %r10, {_ROUNDS};
    @%p2 bra ROUND;
    mul.wide.u32 %rd3, %r6, 4;
    add.u64 %rd4, %rd1, %rd3;
    setp.ne.u32 %p3, %r2, 0;
    @%p3 bra WRITE;
    ld.global.u32 %r11, [%rd4];
    setp.eq.u32 %p3, %r11, %r9;
    @%p3 bra NEXT;
    atom.global.add.u32 %r12, [%rd2], 1;
    bra NEXT;
WRITE:
    st.global.u32 [%rd4], %r9;
NEXT:
    add.u32 %r6, %r6, %r8;
    bra WORD;
END:
    ret;
}}
"""


def faults_of_gpus(least: int) -> list[str]:
    """Return what is wrong with the GPUs that this process may use, which have to be that many at least.

    Nothing is known, and nothing is wrong, where the driver has no library here.
    """
    if (library := _library()) is None:
        return []
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            for fault in _faults(library, least):
                os.write(writer, f"{fault}\n".encode())
            os.write(writer, _DONE)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        said = _said(reader)
    finally:
        os.close(reader)
        os.kill(
            child, signal.SIGKILL
        )  # its parent does not wait: a call of the driver may not be interruptible
    faults = said.decode("utf-8", "replace").splitlines()
    if said.endswith(_DONE):
        return faults[:-1]
    return [*faults, f"NVIDIA's driver crashed, or did not answer in {_SECONDS} s"]


def _said(reader: int) -> bytes:
    """Return what a process writes until its end, or the deadline."""
    deadline, said, poll = time.monotonic() + _SECONDS, b"", select.poll()
    poll.register(reader, select.POLLIN)  # not `select.select`, whose descriptors are below 1024
    while len(said) < _MOST_BYTES and poll.poll(max(0, deadline - time.monotonic()) * 1000):
        if not (data := os.read(reader, _MOST_BYTES)):
            break
        said += data
    return said


def _library() -> ctypes.CDLL | None:
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


class _CudaError(Exception):
    """A function of the driver failed; the text says which, and how."""

    def __init__(self, function: str, code: int, name: str) -> None:
        super().__init__(f"{function}: {name or 'error'} ({code})")
        self.code = code


class _Driver:
    """The functions of the driver's library, with an exception for those that fail."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __call__(self, function: str, *arguments: object) -> None:
        if code := getattr(self._library, function)(*arguments):
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(name))
            raise _CudaError(function, code, (name.value or b"").decode("ascii", "replace"))


def _faults(library: ctypes.CDLL, least: int) -> Iterator[str]:
    cuda, count = _Driver(library), ctypes.c_int()
    try:
        cuda("cuInit", 0)
        cuda("cuDeviceGetCount", ctypes.byref(count))
    except _CudaError as error:
        if error.code != _NO_DEVICE:
            yield str(error)
            return
    if count.value < least:
        yield f"CUDA has {count.value} GPUs, expected {least}"
    for number in range(count.value):
        try:
            wrong = _wrong_words(cuda, number)
        except _CudaError as error:
            yield f"GPU {number}: {error}"
        else:
            if wrong:
                yield f"GPU {number}: {wrong} words in its memory are not what it should have computed"


def _wrong_words(cuda: _Driver, number: int) -> int:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda("cuDeviceGet", ctypes.byref(device), number)
    cuda("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    try:
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        cuda("cuModuleLoadData", ctypes.byref(module), _KERNEL.encode())
        cuda("cuModuleGetFunction", ctypes.byref(kernel), module, b"check")
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        cuda("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        count = min(_WORDS, free.value // 8)
        words, wrong = ctypes.c_uint64(), ctypes.c_uint64()
        cuda("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(4 * count))
        cuda("cuMemAlloc_v2", ctypes.byref(wrong), ctypes.c_size_t(4))
        cuda("cuMemsetD32_v2", wrong, 0, ctypes.c_size_t(1))
        for writes in (1, 0):
            given = (words, ctypes.c_uint32(count), wrong, ctypes.c_uint32(writes))
            pointers = (ctypes.c_void_p * len(given))(*(ctypes.addressof(each) for each in given))
            shape = (_BLOCKS, 1, 1, _THREADS, 1, 1, 0)
            cuda("cuLaunchKernel", kernel, *shape, None, pointers, None)
            cuda("cuCtxSynchronize")
        few, found = (ctypes.c_uint32 * _FEW)(), ctypes.c_uint32()
        cuda("cuMemcpyDtoH_v2", few, words, ctypes.c_size_t(4 * min(_FEW, count)))
        cuda("cuMemcpyDtoH_v2", ctypes.byref(found), wrong, ctypes.c_size_t(4))
        return found.value + sum(few[place] != _expected(place) for place in range(min(_FEW, count)))
    finally:
        cuda("cuCtxDestroy_v2", context)


def _expected(word: int) -> int:
    """Return the number that belongs to a place in memory."""
    for _ in range(_ROUNDS):
        word = (word * _FACTOR + _TERM) % (1 << 32)
    return word
