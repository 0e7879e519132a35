"""``pai-marketplace``: the server, and commands of its operator."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pai_marketplace import people
from pai_marketplace.backup import backup, restore
from pai_marketplace.database import Database
from pai_marketplace.errors import Invalid, Refused
from pai_marketplace.settings import OpenId, Settings
from pai_runtime.command.output import report, say, write_lines
from pai_task.exit_codes import CANNOT_RUN, INVALID

DATABASE = "PAI_MARKETPLACE_DATABASE"
"""The variable with the URL of the database, which may hold a password: it is no argument."""


OPENID_SECRET = "PAI_MARKETPLACE_OPENID_SECRET"  # noqa: S105 - its name
"""The variable with the secret of the marketplace at the OpenID provider; a public client has none."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        status: int = args.main(args)
    except Refused as error:
        say(f"{error}")
        return CANNOT_RUN
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pai-marketplace", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    serve = commands.add_parser("serve", help="serve the marketplace")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8008, help="the port (default: %(default)s; 0: any)")
    serve.add_argument(
        "--review", action="store_true", help="others see a version once a reviewer approves it"
    )
    serve.add_argument("--no-anonymous", action="store_true", help="only users may read")
    serve.add_argument("--secure-cookies", action="store_true", help="it is reached by HTTPS only")
    serve.add_argument("--trusted-proxies", default="", help="addresses whose X-Forwarded-For is believed")
    serve.add_argument("--reads-per-minute", type=int, default=Settings.reads_per_minute, metavar="N")
    serve.add_argument("--writes-per-minute", type=int, default=Settings.writes_per_minute, metavar="N")
    openid = serve.add_argument_group("OpenID Connect", f"The client's secret is in ${OPENID_SECRET}.")
    openid.add_argument(
        "--openid-issuer", default="", metavar="URL", help="the provider where people sign in"
    )
    openid.add_argument(
        "--openid-client", default="", metavar="ID", help="what the provider calls the marketplace"
    )
    openid.add_argument("--openid-admins", default="", metavar="GROUP", help="its members are admins")
    openid.add_argument("--url", default="", help="where people reach the marketplace")
    serve.set_defaults(main=_serve)
    _add_accounts(commands)
    _add_exchange(commands)
    return parser


def _add_exchange(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    export = commands.add_parser("export", help="write what everybody may read to files for any web server")
    export.add_argument("folder", type=Path)
    export.add_argument("--newest", action="store_true", help="OWNER/NAME.yaml instead, as for git")
    export.set_defaults(main=_export)
    sync = commands.add_parser(
        "sync", help="publish the definitions and jobs in a folder or a git repository"
    )
    sync.add_argument("place", help="a directory, or the URL of a git repository")
    sync.add_argument("--owner", default="", help="whose they become (default: as their directory is called)")
    sync.add_argument(
        "--review", action="store_true", help="others see a version once a reviewer approves it"
    )
    sync.set_defaults(main=_sync)
    for name, function in (("backup", backup), ("restore", restore)):
        command = commands.add_parser(name, help=f"{name} the whole database, of either kind")
        command.add_argument("file", type=Path)
        command.set_defaults(main=_backup, function=function)


def _add_accounts(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    user = commands.add_parser("user", help="add and change users").add_subparsers(
        metavar="ACTION", required=True
    )
    add = user.add_parser("add")
    add.add_argument("name")
    add.add_argument("--admin", action="store_true")
    add.add_argument("--reviewer", action="store_true")
    add.set_defaults(main=_add_user)
    change = user.add_parser("set")
    change.add_argument("name")
    change.add_argument("--admin", action=argparse.BooleanOptionalAction, dest="is_admin")
    change.add_argument("--reviewer", action=argparse.BooleanOptionalAction, dest="is_reviewer")
    change.add_argument("--subject", help="ISSUER SUBJECT, who it is at the OpenID provider")
    change.set_defaults(main=_change_user)
    disable = user.add_parser("disable")
    disable.add_argument("name")
    disable.set_defaults(main=_disable)
    group = commands.add_parser("group", help="add a group and members").add_subparsers(
        metavar="ACTION", required=True
    )
    add = group.add_parser("add")
    add.add_argument("name")
    add.set_defaults(main=_add_group)
    for action, function in (("add-member", people.add_member), ("remove-member", people.remove_member)):
        member = group.add_parser(action)
        member.add_argument("name")
        member.add_argument("user")
        member.set_defaults(main=_member, function=function)
    token = commands.add_parser("token", help="make, list and revoke tokens").add_subparsers(
        metavar="ACTION", required=True
    )
    add = token.add_parser("add")
    add.add_argument("user")
    add.add_argument("--scope", action="append", choices=people.SCOPES, help="default: read and publish")
    add.add_argument("--days", type=float, default=people.TOKEN_DAYS)
    add.add_argument("--label", default="")
    add.set_defaults(main=_add_token)
    list_ = token.add_parser("list")
    list_.add_argument("user", nargs="?", default="")
    list_.set_defaults(main=_list_tokens)
    revoke = token.add_parser("revoke")
    revoke.add_argument("id")
    revoke.set_defaults(main=_revoke)


def database_url() -> str:
    """Return the URL of the database: of the environment, else SQLite in the user's data directory."""
    if url := os.environ.get(DATABASE):
        return url
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    folder = home / "pai-marketplace"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'marketplace.db'}"


def opened() -> Database:
    """Return the database, with its schema up to date."""
    database = Database(database_url())
    database.upgrade()
    return database


def _serve(args: argparse.Namespace) -> int:
    from pai_marketplace.middleware import LOG  # noqa: PLC0415 - as below
    from pai_marketplace.serving import serve  # noqa: PLC0415 - the other commands need no server

    settings = Settings(
        database_url(),
        review=args.review,
        anonymous=not args.no_anonymous,
        secure_cookies=args.secure_cookies,
        trusted_proxies=args.trusted_proxies,
        reads_per_minute=args.reads_per_minute,
        writes_per_minute=args.writes_per_minute,
        openid=_openid(args),
    )
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.__stderr__)
    LOG.setLevel(logging.INFO)
    return serve(settings, args.host, args.port)


def _openid(args: argparse.Namespace) -> OpenId | None:
    """Return what the options say of a provider. Raises `Invalid` if they are not complete."""
    if not (args.openid_issuer or args.openid_client or args.openid_admins):
        return None
    if not (args.openid_issuer and args.openid_client and args.url):
        raise Invalid("expected --openid-issuer, --openid-client and --url together")
    secret = os.environ.get(OPENID_SECRET, "")
    return OpenId(args.openid_issuer, args.openid_client, args.url, secret, args.openid_admins)


def _add_user(args: argparse.Namespace) -> int:
    with opened().writing() as session:
        people.add_account(session, args.name, admin=args.admin, reviewer=args.reviewer)
    return 0


def _change_user(args: argparse.Namespace) -> int:
    given = {name: getattr(args, name) for name in ("is_admin", "is_reviewer", "subject")}
    with opened().writing() as session:
        people.change_user(
            session, args.name, {key: value for key, value in given.items() if value is not None}
        )
    return 0


def _disable(args: argparse.Namespace) -> int:
    with opened().writing() as session:
        people.disable(session, args.name)
    return 0


def _add_group(args: argparse.Namespace) -> int:
    with opened().writing() as session:
        people.add_account(session, args.name, group=True)
    return 0


def _member(args: argparse.Namespace) -> int:
    with opened().writing() as session:
        args.function(session, args.name, args.user)
    return 0


def _add_token(args: argparse.Namespace) -> int:
    with opened().writing() as session:
        _, text = people.add_token(
            session, args.user, args.scope or ["read", "publish"], label=args.label, days=args.days
        )
    write_lines([text])
    return 0


def _list_tokens(args: argparse.Namespace) -> int:
    with opened().reading() as session:
        for each in people.tokens(session, args.user):
            state = "revoked" if each.revoked_at else f"until {each.expires_at[:10]}"
            write_lines([f"{each.id}  {each.user}  {each.scopes}  {state}  {each.label}"])
    return 0


def _revoke(args: argparse.Namespace) -> int:
    with opened().writing() as session:
        people.revoke(session, args.id)
    return 0


def _export(args: argparse.Namespace) -> int:
    from pai_marketplace.export import export, export_newest  # noqa: PLC0415 - as above

    written = (export_newest if args.newest else export)(opened(), args.folder)
    write_lines([f"{written} items in {args.folder}"])
    return 0


def _sync(args: argparse.Namespace) -> int:
    from pai_marketplace.sync import sync  # noqa: PLC0415 - as above

    done = sync(opened(), Settings(database_url(), review=args.review), args.place, args.owner)
    report(*done.problems)
    write_lines([f"{done.new} published, {done.same} as before, {len(done.problems)} refused"])
    return INVALID if done.problems else 0


def _backup(args: argparse.Namespace) -> int:
    write_lines([f"{args.function(opened(), args.file)} rows"])
    return 0
