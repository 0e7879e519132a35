"""``pai-runtime plugins verify``: entries of a policy for plugins by who built them, as attestations show."""

import argparse
from pathlib import Path

from pai_runtime.command.arguments import add_downgrade
from pai_runtime.plugin import Output, UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="a plugin's id, its short name, or a distribution (default: all for which the policy says who "
        "has to have built them)",
    )
    parser.add_argument(
        "--built-by",
        metavar="URL",
        help="the workflow that has to have built it, such as "
        "https://github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml (default: what the policy says)",
    )
    parser.add_argument(
        "--wheels",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="directory with the wheel from which it was installed, and beside it WHEEL.publish.attestation "
        "or, as an index serves it, WHEEL.provenance (default: the current directory)",
    )
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the entry into this policy instead of printing it"
    )
    parser.add_argument(
        "--trusted-root",
        type=Path,
        metavar="FILE",
        help="the trusted root of another instance of Sigstore than the public one",
    )
    add_downgrade(parser)


def main(args: argparse.Namespace, _output: Output) -> int:
    """Return exit status 0, or 1 if something is not verified, or would be a downgrade."""
    from pai_attestations.entries import verify_entries  # noqa: PLC0415 - what it imports takes a second

    try:
        return verify_entries(
            args.name,
            args.built_by,
            args.write,
            wheels=args.wheels,
            trusted_root=args.trusted_root,
            downgrade=args.allow_downgrade,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
