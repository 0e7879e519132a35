"""The system calls that the seccomp profile of container runtimes (``RuntimeDefault``) takes from containers.

Theirs lists what is allowed; this lists what is not, as far as a program may want to use it. To trace
processes, and to read their memory, is allowed since containerd 1.7 and Docker 20.10.6.
"""

from collections.abc import Collection
from typing import Any, Final

_EPERM, _ENOSYS = 1, 38

_DENIED: Final = (
    *("mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree"),
    *("mount_setattr", "swapon", "swapoff", "quotactl", "quotactl_fd"),
    *("unshare", "setns", "sethostname", "setdomainname"),
    *("open_by_handle_at", "name_to_handle_at", "fanotify_init", "lookup_dcookie"),
    *("process_madvise", "kcmp", "pidfd_getfd", "perf_event_open"),
    *("add_key", "keyctl", "request_key", "bpf", "userfaultfd"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("mbind", "migrate_pages", "move_pages", "get_mempolicy", "set_mempolicy"),
    *("clock_settime", "settimeofday", "acct", "syslog", "vhangup", "reboot"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "iopl", "ioperm"),
)
_NEW_NAMESPACES: Final = (
    0x00020000,  # mount
    0x02000000,  # cgroup
    0x04000000,  # uts
    0x08000000,  # ipc
    0x10000000,  # user
    0x20000000,  # pid
    0x40000000,  # net
)


def runtime_default(capabilities: Collection[str]) -> dict[str, Any]:
    """It as the OCI runtime specification writes it, for a container with these capabilities."""
    denied = [*_DENIED, *(() if "SYS_CHROOT" in capabilities else ("chroot",))]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "syscalls": [
            _rule(denied, _EPERM),
            # Its flags are in memory, which no filter sees: programs are to use `clone` in its place.
            _rule(["clone3"], _ENOSYS),
            *(_rule(["clone"], _EPERM, args=[_has_flag(flag)]) for flag in _NEW_NAMESPACES),
            *(
                _rule(["socket"], _EPERM, args=[{"index": 0, "value": family, "op": "SCMP_CMP_EQ"}])
                for family in (38, 40)  # AF_ALG, AF_VSOCK
            ),
        ],
    }


def _rule(names: list[str], error: int, **more: Any) -> dict[str, Any]:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error, **more}


def _has_flag(flag: int) -> dict[str, Any]:
    return {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}
