"""The launcher: the command of the task container, which starts the bundle's interpreter in any image.

A static program without a C library: it obeys no variable and opens no file of the image, where the
interpreter and its loader, or a shell, would load locales and libraries. It blocks the signals that end a
task, which the interpreter would lose while it starts, or show where it was. It hides all variables, whose
names `pai_pod.launcher_environment.image_environment` gives back, and executes the interpreter.
"""

import platform
import signal
import struct
from collections.abc import Callable, Iterable, Sequence

from pai_pod.bundle.errors import CannotBundle
from pai_pod.bundle.interpreter import PROGRAM, SEARCH_PATH
from pai_pod.bundle.site import SITE
from pai_pod.launcher_environment import HIDING
from pai_task.bundle import OWN_VARIABLES
from pai_task.exit_codes import RUNTIME_ERROR
from pai_task.interpreter import argv_of
from pai_task.paths import BUNDLE

ENTRY = "pai_pod.entry"

_BASE = 0x400000
"""The address of the only segment, which is read-only."""
_HEADERS = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")
_EXECUTABLE, _NO_FLAGS, _VERSION = 2, 0, 1
_LOAD, _STACK = 1, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_BLOCKED = sum(1 << number - 1 for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
"""The signals that end a task, blocked until its supervisor handles them; a mask as the kernel writes it."""


def launcher(search_path: Iterable[str] = (f"{BUNDLE}/{SITE}", *SEARCH_PATH), entry: str = ENTRY) -> bytes:
    """Return the launcher as an ELF program for this type of machine.

    Raises `CannotBundle` if it is not supported.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise CannotBundle(f"expected a machine of one of the kinds {', '.join(_MACHINES)}, found {machine}")
    return launcher_for(machine, argv_of(f"{BUNDLE}/{PROGRAM}", list(search_path), entry))


def launcher_for(machine: str, argv: Sequence[str]) -> bytes:
    """Return a program for a type of machine that executes `argv` followed by its own arguments."""
    number, code = _MACHINES[machine]
    message = f"pai-runtime: cannot execute {argv[0]}: is the volume of the pod mounted?\n"
    own = [f"{name}={value}" for name, value in OWN_VARIABLES.items()]
    strings = [each.encode() + b"\0" for each in (*argv, *own, message)]
    headers = sum((_HEADERS[0].size, 2 * _HEADERS[1].size))
    table = headers + len(code(_BASE, 0, (0, 0), 0, 0))  # whose length does not depend on what is in it
    table += -table % 8
    addresses = []
    at = _BASE + table + 8 * len(argv)
    for each in strings:
        addresses.append(at)
        at += len(each)
    program = code(_BASE + table, len(argv), addresses[len(argv) : -1], addresses[-1], len(message.encode()))
    body = program.ljust(table - headers, b"\0") + struct.pack(f"<{len(argv)}Q", *addresses[: len(argv)])
    data = body + b"".join(strings)
    return _elf_headers(number, headers + len(data)) + data


def _elf_headers(machine: int, size: int) -> bytes:
    first, each = _HEADERS
    start = first.size + 2 * each.size
    identity = b"\x7fELF\x02\x01\x01"
    sizes = first.size, each.size, 2, 0, 0, 0
    header = first.pack(
        identity, _EXECUTABLE, machine, _VERSION, _BASE + start, first.size, 0, _NO_FLAGS, *sizes
    )
    loaded = each.pack(_LOAD, _READ | _EXECUTE, 0, _BASE, _BASE, size, size, 0x10000)
    return header + loaded + each.pack(_STACK, _READ | _WRITE, 0, 0, 0, 0, 0, 16)


def _x86_64(table: int, count: int, variables: Sequence[int], message: int, length: int) -> bytes:
    """Return the machine code; at its start, the stack has argc, argv, NULL, the environment, NULL."""
    first, second = variables
    return b"".join(
        (
            b"\x68" + _32(_BLOCKED),  # push _BLOCKED
            b"\xbf" + _32(0),  # mov edi, SIG_BLOCK
            b"\x48\x89\xe6",  # mov rsi, rsp: the set
            b"\xba" + _32(0),  # mov edx, 0: the old one is not wanted
            b"\x41\xba" + _32(8),  # mov r10d, the size of a set
            b"\xb8" + _32(14),  # mov eax, rt_sigprocmask
            b"\x0f\x05",  # syscall
            b"\x58",  # pop rax
            b"\x4c\x8b\x04\x24",  # mov r8, [rsp]: argc
            b"\x4c\x8d\x4c\x24\x08",  # lea r9, [rsp+8]: argv
            b"\x4f\x8d\x14\xc1",  # lea r10, [r9+r8*8]: the NULL after argv
            b"\x49\x8d\x72\x08",  # lea rsi, [r10+8]: the environment
            b"\x48\x8b\x3e",  # hide: mov rdi, [rsi]
            b"\x48\x85\xff",  # test rdi, rdi
            b"\x74\x09",  # jz hidden
            b"\x80\x37" + bytes([HIDING]),  # xor byte [rdi], HIDING
            b"\x48\x83\xc6\x08",  # add rsi, 8
            b"\xeb\xef",  # jmp hide
            b"\x6a\x00",  # hidden: push 0
            b"\x49\xff\xc8",  # own: dec r8
            b"\x7e\x06",  # jle fixed
            b"\x43\xff\x34\xc1",  # push qword [r9+r8*8]
            b"\xeb\xf5",  # jmp own
            b"\xb9" + _32(count),  # fixed: mov ecx, count
            b"\xff\x34\xcd" + _32(table - 8),  # next: push qword [table-8+rcx*8]
            b"\xff\xc9",  # dec ecx
            b"\x75\xf5",  # jnz next
            b"\x49\xc7\x02" + _32(first),  # mov qword [r10], first
            b"\x49\x83\xea\x08",  # sub r10, 8
            b"\x49\xc7\x02" + _32(second),  # mov qword [r10], second
            b"\x48\x8b\x3c\x24",  # mov rdi, [rsp]: the program
            b"\x48\x89\xe6",  # mov rsi, rsp: its arguments
            b"\x4c\x89\xd2",  # mov rdx, r10: its environment, two variables more
            b"\xb8" + _32(59),  # mov eax, execve
            b"\x0f\x05",  # syscall; it returns only if it has failed
            b"\xbf" + _32(2),  # mov edi, standard error
            b"\xbe" + _32(message),  # mov esi, message
            b"\xba" + _32(length),  # mov edx, length
            b"\xb8" + _32(1),  # mov eax, write
            b"\x0f\x05",  # syscall
            b"\xbf" + _32(RUNTIME_ERROR),  # mov edi, code
            b"\xb8" + _32(231),  # mov eax, exit_group
            b"\x0f\x05",  # syscall
        )
    )


def _aarch64(table: int, count: int, variables: Sequence[int], message: int, length: int) -> bytes:
    """Return the machine code for ARM, with the same stack at its start as on x86-64."""
    first, second = variables
    return b"".join(
        (
            _set(1, _BLOCKED),
            _32(0xF81F0FE1),  # str x1, [sp, #-16]!
            _set(0, 0),  # SIG_BLOCK
            _32(0x910003E1),  # mov x1, sp: the set
            _set(2, 0),  # the old one is not wanted
            _set(3, 8),  # the size of a set
            _set(8, 135),  # rt_sigprocmask
            _32(0xD4000001),  # svc #0
            _32(0x910043FF),  # add sp, sp, #16
            _32(0xF94003E8),  # ldr x8, [sp]: argc
            _32(0x910023E9),  # add x9, sp, #8: argv
            _32(0x8B080D2A),  # add x10, x9, x8, lsl #3: the NULL after argv
            _32(0x9100214C),  # add x12, x10, #8: the environment
            _32(0xF840858D),  # hide: ldr x13, [x12], #8
            _32(0xB40000AD),  # cbz x13, hidden
            _32(0x394001AE),  # ldrb w14, [x13]
            _32(0x521901CE),  # eor w14, w14, #0x80
            _32(0x390001AE),  # strb w14, [x13]
            _32(0x17FFFFFB),  # b hide
            _32(0x910003EF),  # hidden: mov x15, sp
            _32(0xF81F8DFF),  # str xzr, [x15, #-8]!
            _32(0xF1000508),  # own: subs x8, x8, #1
            _32(0x5400008D),  # b.le fixed
            _32(0xF868792D),  # ldr x13, [x9, x8, lsl #3]
            _32(0xF81F8DED),  # str x13, [x15, #-8]!
            _32(0x17FFFFFC),  # b own
            _set(12, table + 8 * count),  # fixed
            _set(14, count),
            _32(0xF85F8D8D),  # next: ldr x13, [x12, #-8]!
            _32(0xF81F8DED),  # str x13, [x15, #-8]!
            _32(0xF10005CE),  # subs x14, x14, #1
            _32(0x54FFFFA1),  # b.ne next
            _set(11, first),
            _32(0xF900014B),  # str x11, [x10]
            _set(11, second),
            _32(0xF81F8D4B),  # str x11, [x10, #-8]!
            _32(0xF94001E0),  # ldr x0, [x15]: the program
            _32(0xAA0F03E1),  # mov x1, x15: its arguments
            _32(0xAA0A03E2),  # mov x2, x10: its environment, two variables more
            _set(8, 221),  # execve
            _32(0xD4000001),  # svc #0; it returns only if it has failed
            _set(0, 2),  # standard error
            _set(1, message),
            _set(2, length),
            _set(8, 64),  # write
            _32(0xD4000001),  # svc #0
            _set(0, RUNTIME_ERROR),
            _set(8, 94),  # exit_group
            _32(0xD4000001),  # svc #0
        )
    )


def _32(number: int) -> bytes:
    return struct.pack("<I", number)


def _set(register: int, number: int) -> bytes:
    """Encode loading a number into a register on ARM: movz and movk."""
    return _32(0xD2800000 | (number & 0xFFFF) << 5 | register) + _32(
        0xF2A00000 | number >> 16 << 5 | register
    )


_MACHINES: dict[str, tuple[int, Callable[[int, int, Sequence[int], int, int], bytes]]] = {
    "x86_64": (62, _x86_64),
    "aarch64": (183, _aarch64),
}
"""The supported machines, as `platform.machine` names them: number in ELF files, code generator."""
