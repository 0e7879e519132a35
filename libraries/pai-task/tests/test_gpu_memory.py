"""The memory of GPUs that processes have, as drivers tell it, in files of the form that they write."""

from pathlib import Path
from typing import ClassVar

import pytest

from pai_task.supervisor import usage
from pai_task.supervisor.gpu_memory import gpu_memory

AMD = """\
pos:\t0
flags:\t02100002
mnt_id:\t26
ino:\t1234
drm-driver:\tamdgpu
drm-client-id:\t{client}
drm-pdev:\t0000:{device:02x}:00.0
drm-total-vram:\t900000 KiB
drm-shared-vram:\t0
drm-resident-vram:\t{size} KiB
drm-resident-gtt:\t77777 KiB
drm-memory-vram:\t{size} KiB
drm-engine-compute:\t123456 ns
"""
OLD_AMD = """\
pdev:\t0000:03:00.0
drm-driver:\tamdgpu
drm-pdev:\t0000:{device:02x}:00.0
drm-client-id:\t{client}
drm-memory-vram:\t{size} KiB
drm-memory-gtt: \t80 KiB
drm-memory-cpu: \t90 KiB
"""
XE = """\
drm-driver:\txe
drm-client-id:\t{client}
drm-pdev:\t0000:{device:02x}:00.0
drm-total-system:\t4 MiB
drm-resident-system:\t4 MiB
drm-resident-vram0:\t{size} KiB
drm-resident-gtt:\t192 KiB
"""


def opened(proc: Path, pid: int, fd: int, text: str | bytes, target: str = "/dev/dri/renderD128") -> None:
    """Have a process a file open, with what its driver tells."""
    for name in ("fd", "fdinfo"):
        (proc / str(pid) / name).mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "fd" / str(fd)).symlink_to(target)
    (proc / str(pid) / "fdinfo" / str(fd)).write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize("form", [AMD, OLD_AMD, XE])
def test_each_client_of_a_device_counts_once_whoever_has_it_open(tmp_path: Path, form: str) -> None:
    opened(tmp_path, 10, 3, form.format(client=1, device=3, size=1000))
    opened(tmp_path, 10, 4, form.format(client=1, device=3, size=1000))
    opened(tmp_path, 11, 3, form.format(client=1, device=3, size=1000))  # inherited
    opened(tmp_path, 11, 5, form.format(client=2, device=3, size=300))
    opened(tmp_path, 11, 6, form.format(client=1, device=4, size=20))
    opened(tmp_path, 12, 3, form.format(client=9, device=3, size=5))
    assert gpu_memory([10, 11], str(tmp_path)) == 1320


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n:\n::\n",
        "drm-memory-vram:\t-5 KiB",
        "drm-memory-vram:\t5 parsecs",
        "drm-memory-vram",
        b"\xff\0:\xff",
    ],
)
def test_what_is_no_size_is_none(tmp_path: Path, text: str | bytes) -> None:
    opened(tmp_path, 10, 3, text)
    assert gpu_memory([10, 99], str(tmp_path)) == 0


def test_other_files_are_not_asked(tmp_path: Path) -> None:
    opened(tmp_path, 10, 3, AMD.format(client=1, device=3, size=1000), target="/tmp/renderD128")
    assert gpu_memory([10], str(tmp_path)) == 0


def test_the_peak_is_what_the_record_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        keepers: ClassVar[set[int]] = set()

        def at(self, when: float, _: object) -> None: ...

    sizes = iter([10, 2049, 300])
    monkeypatch.setattr(usage, "has_devices", lambda: True)
    monkeypatch.setattr(usage, "gpu_memory", lambda _: next(sizes))
    watch = usage.Usage(Clock(), {})  # type: ignore[arg-type]
    assert "gpuMemoryPeakMB" not in watch.measured()
    for _ in range(3):
        watch._sample()
    assert watch.measured()["gpuMemoryPeakMB"] == 3
