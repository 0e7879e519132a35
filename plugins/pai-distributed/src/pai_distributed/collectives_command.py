"""``pai-runtime collectives``: which ranks did not take part in what, by PyTorch's flight recorder."""

import argparse
from pathlib import Path

from pai_distributed.flight_recorder import PREFIX, NoRecording, Recording, findings, read
from pai_runtime.plugin import Output

NOTHING = 1
"""The exit status if nothing was read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "place",
        nargs="+",
        type=Path,
        metavar="PLACE",
        help=f"the directory of a run, or files {PREFIX}RANK of all ranks",
    )


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0, or 1 if nothing was read."""
    recordings: dict[int, Recording] = {}
    for path in [file for place in args.place for file in _files(place)]:
        rank = path.name.removeprefix(PREFIX)
        if not rank.isdecimal():
            output.report(f"{path} is not read: its name does not end with a rank")
            continue
        try:
            recordings[int(rank)] = read(path)
        except (OSError, NoRecording) as error:
            output.report(f"{path} is not read: {error}")
    if not recordings:
        output.report("there is no recording of collective operations")
        return NOTHING
    said = list(findings(dict(sorted(recordings.items()))))
    output.write_lines(said or [f"all operations of {len(recordings)} ranks are complete"])
    return 0


def _files(place: Path) -> list[Path]:
    return sorted(place.glob(f"*/*/distributed/{PREFIX}*")) if place.is_dir() else [place]
