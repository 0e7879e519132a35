"""Fits a line to this worker's part of the data, and writes down how that goes for TensorBoard."""

import json
import os
import struct
import sys
import time
from pathlib import Path

ROUNDS, EVERY = 20000, 500
LIMIT = 1e6


def measurements() -> list[tuple[float, float]]:
    """Speed (mph) and stopping distance (ft) of cars."""
    text = Path(__file__).with_name("cars.csv").read_text("utf-8")
    return [(float(speed), float(distance)) for speed, distance in (pair.split(",") for pair in text.split())]


class Events:
    """A file of scalars as TensorBoard reads it; PyTorch and TensorFlow have writers of their own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"events.out.tfevents.{int(time.time())}.fit").open("wb")

    def write(self, step: int, tag: str, value: float) -> None:
        scalar = _text(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
        event = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step)
        event += _text(5, _text(1, scalar))
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))
        self._file.flush()


def _text(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)


def main() -> None:
    rate = float(sys.argv[1])
    index, workers = int(os.environ["PAI_TASK_INDEX"]), int(os.environ["PAI_TASK_ROLE_TASK_COUNT_worker"])
    mine = measurements()[index::workers]
    events = Events(Path(os.environ["PAI_WORK_DIR"], "events"))
    slope = intercept = 0.0
    for step in range(ROUNDS):
        errors = [(slope * x + intercept - y, x) for x, y in mine]
        slope -= rate * sum(error * x for error, x in errors) / len(mine)
        intercept -= rate * sum(error for error, _ in errors) / len(mine)
        if abs(slope) > LIMIT:
            raise ValueError(f"the fit diverges in round {step} with the rate {rate}")
        if step % EVERY == 0:
            events.write(step, "loss", sum(error * error for error, _ in errors) / len(mine))
    print(f"from {len(mine)} measurements: distance = {slope:.2f} * speed {intercept:+.2f}", flush=True)
    Path(os.environ["PAI_WORK_DIR"], f"fit-{index}.json").write_text(json.dumps([slope, intercept]))


if __name__ == "__main__":
    main()
