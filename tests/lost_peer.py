"""A socket that no packet reaches any more, as of a node that has been lost."""

import ctypes
import socket
from typing import Final

_SO_ATTACH_FILTER: Final = 26


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jumps", ctypes.c_uint16), ("value", ctypes.c_uint32)]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


_RETURN_NOTHING = _Instruction(6, 0, 0)
_DROP: Final = _Filter(1, ctypes.pointer(_RETURN_NOTHING))


def drop_packets(to: socket.socket) -> None:
    """Attach a filter that drops all packets to a socket. Raises PermissionError where that is forbidden."""
    to.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, bytes(_DROP))
