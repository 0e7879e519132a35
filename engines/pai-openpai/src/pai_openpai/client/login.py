"""``pai-runtime login``: gets a token of a cluster by a login, and keeps that alone."""

import argparse
import getpass
import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from pai_network.authorization import is_token
from pai_network.deadline import Deadline
from pai_network.fields import mapping, string
from pai_openpai.client.api import Api
from pai_openpai.client.loopback import Loopback
from pai_openpai.client.messages import NO_API
from pai_openpai.client.profile import ENGINE, OpenpaiProfile, read_profile
from pai_openpai.client.token import VARIABLE, Token, is_variable_used, keep_token
from pai_runtime.engine.documents import find_profile
from pai_runtime.engine.messages import RequestError, hide, printable
from pai_runtime.plugin import Output, UserError

_WAIT: Final = 300.0
_MOST_BYTES: Final = 64 * 1024
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_WRONG: Final = ("NoUserError", "IncorrectPasswordError", "InvalidParametersError")
_ORIGIN: Final = "this login"
_LATE: Final = 5.0
_PAUSE: Final = 0.2
"""Seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--on", required=True, metavar="PROFILE", help="the engine profile of the cluster (engines.yaml)"
    )
    parser.add_argument(
        "--token",
        action="store_true",
        help="read an application token, as the portal's profile page makes them, from the terminal or the "
        "standard input",
    )


def main(args: argparse.Namespace, output: Output) -> int:
    """Return exit status 0 once a token is kept. Raises `UserError` and `ClusterError`."""
    found = find_profile(args.on)
    if found.engine != ENGINE:
        raise UserError(f"{args.on} is a profile of {found.engine}, which has its own login")
    profile = read_profile(found)
    if profile.url.startswith("http:"):
        output.report(f"note: {profile.url} has no TLS: others on the network can read what is sent there")
    try:
        given = Token(_given_token(profile) if args.token else _new_token(profile, output), _ORIGIN)
    except EOFError:
        raise UserError("the input ended before the login was complete") from None
    checked = _checked_by_server(profile, given, 0 if args.token else _LATE)
    user, is_application = string(checked, "username"), checked.get("application") is True
    kept = given.text if is_application else _application_token(profile, given, output)
    try:
        path = keep_token(profile, user, kept)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; for scripts, {VARIABLE} does as well") from None
    if is_variable_used(profile):
        output.report(f"note: while {VARIABLE} is set, it goes before this token")
    output.report(
        f"{profile.name}: logged in as {printable(user)}; the token is in {path} until it is revoked"
    )
    return 0


def _given_token(profile: OpenpaiProfile) -> str:
    if sys.stdin.isatty():
        given = getpass.getpass(f"token for {profile.name}: ")
    else:
        given = sys.stdin.read(_MOST_BYTES)
    if not is_token(given.strip()):
        raise UserError("expected a token, found other characters, or none")
    return given.strip()


def _new_token(profile: OpenpaiProfile, output: Output) -> str:
    """Log in as the cluster has it, and return the token of the login."""
    method = string(Api(profile).info(), "authnMethod")
    return _by_browser(profile, output) if method == "OIDC" else _by_password(profile)


def _by_password(profile: OpenpaiProfile) -> str:
    if not sys.stdin.isatty():
        raise UserError("a password is asked for at a terminal; without one, use --token")
    usual = ""
    with suppress(KeyError, OSError):  # a container may have no name for its user
        usual = getpass.getuser()
    user = input(f"user on {profile.name}{f' [{usual}]' if usual else ''}: ") or usual
    password = getpass.getpass(f"password of {user}: ")
    hide([password])
    form = {"username": user, "password": password}
    try:
        answer = Api(profile).post("/authn/basic/login", form, what="log in", anonymous=True)
    except RequestError as error:
        if error.reason in _WRONG:
            raise UserError(f"{profile.name}: the user or the password is wrong") from None
        raise
    return _checked(string(mapping(answer), "token"), profile)


def _by_browser(profile: OpenpaiProfile, output: Output) -> str:
    with Loopback() as loopback:
        query = urlencode({"redirect_uri": loopback.url, "from": "pai-runtime"})
        address = f"{profile.url}/rest-server/api/v1/authn/oidc/login?{query}"
        output.report(f"log in with a browser of this machine at {address}; Ctrl-C ends this")
        if any(map(os.environ.get, _DISPLAYS)):
            webbrowser.open(address)
        token = loopback.wait(_WAIT)
    if not token:
        raise UserError(
            f"no login came within {_WAIT / 60:.0f} minutes; without a browser, make an application token on"
            f" the portal's profile page, and use pai-runtime login --on {profile.name} --token"
        )
    return token


def _application_token(profile: OpenpaiProfile, login: Token, output: Output) -> str:
    """Return a token that does not expire, and revoke that of the login."""
    api = Api(profile, login)
    try:
        answer = api.post("/tokens/application", None, what="make an application token")
        made = _checked(string(mapping(answer), "token"), profile)
        _checked_by_server(profile, Token(made, _ORIGIN), _LATE)
    finally:
        try:
            _end_login(api, login)
        except RequestError as error:
            output.report(f"note: {error}; the token of this login expires by itself in some days")
    return made


def _checked_by_server(profile: OpenpaiProfile, token: Token, late: float) -> Mapping[str, Any]:
    """Return what the server says of a token.

    It hands out tokens a moment before it has stored them. Until then it refuses them, and would lose them
    by ending another one of the same user; so a new one is asked for again for `late` seconds.
    """
    deadline = Deadline(late)
    while True:
        try:
            return mapping(Api(profile, token).get("/tokens/check", what="check the token"))
        except RequestError as error:
            if error.status != HTTPStatus.UNAUTHORIZED or not deadline.wait(_PAUSE):
                raise


def _end_login(api: Api, login: Token) -> None:
    """Revoke the token of a login. Raises `RequestError`."""
    what = "end the login"
    try:
        api.delete("/authn/basic/logout", what=what)
    except RequestError as error:
        if error.reason != NO_API:
            raise
        # With OpenID Connect there is no such request, and its own logout leaves the token as it is.
        api.delete(f"/tokens/{quote(login.text, safe='')}", what=what)


def _checked(token: str, profile: OpenpaiProfile) -> str:
    if not is_token(token):
        raise UserError(f"{profile.name}: the cluster sends no token")
    hide([token])
    return token
