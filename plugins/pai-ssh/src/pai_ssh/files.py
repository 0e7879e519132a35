"""The files for sshd and ssh, all in one folder of the task; nothing else is changed."""

import grp
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pai_ssh.peers import Peer, spellings
from pai_ssh.scripts import BUNDLED, use_accounts

if TYPE_CHECKING:
    from pai_ssh.keys import Keys

HOST = "pai-job"
"""The host name under which the shared host key of all tasks is known."""

CLIENTS = ("ssh", "scp", "sftp")

SFTP_SERVERS = (
    f"{BUNDLED}/sftp-server",
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
    "/usr/lib/sftp-server",
)
"""The paths of sftp-server in the runtime and in distributions."""


def write_files(
    folder: Path, keys: "Keys", users: Iterable[str], port: int, peers: list[Peer] | None
) -> None:
    """Write all files; `users` are further public keys. `peers` None gives no access to other tasks."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.parent.chmod(0o700)
    authorized = [*([keys.job.public] if peers is not None else []), *keys.users, *users]
    files = {
        "host_key": keys.host.private,
        "known_hosts": f"{HOST} {keys.host.public}\n",
        "authorized_keys": "".join(f"{key.strip()}\n" for key in authorized),
        "sshd_config": _sshd_config(folder, port),
        "session": _session(folder),
    }
    if peers is not None:
        files |= {"key": keys.job.private, "config": "".join(_config(folder, peers))}
        (folder / "bin").mkdir(exist_ok=True)
        for program in CLIENTS:
            _write(folder / "bin" / program, _client(folder, program, peers), 0o700)
    for name, text in files.items():
        _write(folder / name, text if text.endswith("\n") else f"{text}\n", 0o600)


def _write(path: Path, text: str, mode: int) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)


def can_have_terminals() -> bool:
    """Return whether sshd can give its user a terminal: only if the group ``tty`` is mapped here.

    It is not in the user namespace of an isolated task of an ordinary user.
    """
    try:
        group = grp.getgrnam("tty").gr_gid
        lines = Path("/proc/self/gid_map").read_text().splitlines()
    except (KeyError, OSError):
        return True
    return any(
        first <= group < first + count for first, _, count in (map(int, line.split()) for line in lines)
    )


def _sshd_config(folder: Path, port: int) -> str:
    terminals = "" if can_have_terminals() else "PermitTTY no\n"
    return f"""\
Port {port}
{terminals}HostKey "{folder}/host_key"
PidFile "{folder}/sshd.pid"
AuthorizedKeysFile "{_expanded(folder)}/authorized_keys"
# The folders above ours are not ours, and may well be writable for others, as /tmp is.
StrictModes no
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
# All tasks of a large job may come at one time.
MaxStartups 1000
Subsystem sftp internal-sftp
ForceCommand exec sh {quote(str(folder / "session"))}
"""


def _session(folder: Path) -> str:
    """Return the script of every session: its command, with the task's variables and working directory."""
    accounts = use_accounts(quote(str(folder)))
    servers = " ".join(SFTP_SERVERS)
    return f"""\
. {quote(str(folder / "environment"))}
cd "$PAI_WORK_DIR"
command=$SSH_ORIGINAL_COMMAND
unset SSH_ORIGINAL_COMMAND
# Else bash would read ~/.bashrc once more, and what that sets would hide what the task has.
export SHLVL=1
case $command in
'') exec "$SHELL" ;;
internal-sftp)
    export {accounts}
    for server in {servers}; do
        if [ -x "$server" ]; then exec "$server"; fi
    done
    echo "no sftp-server, so files cannot be copied; install openssh-sftp-server in the image" >&2
    exit 127
    ;;
'scp -'*) # sent by a client before OpenSSH 9, which has no server to call
    command -v scp >/dev/null || {{ PATH=$PATH:{BUNDLED}; export {accounts}; }}
    ;;
esac
exec "$SHELL" -c "$command"
"""


def _config(folder: Path, peers: list[Peer]) -> Iterator[str]:
    path = _expanded(folder)
    for peer in peers:
        yield f"""\
Host {" ".join(f"{role}-{peer.index}" for role in spellings(peer.role))}
    HostName {peer.host}
    Port {peer.port}
    IdentityFile "{path}/key"
    IdentitiesOnly yes
    UserKnownHostsFile "{path}/known_hosts"
    GlobalKnownHostsFile /dev/null
    HostKeyAlias {HOST}
    StrictHostKeyChecking yes
    UpdateHostKeys no
    BatchMode yes
    LogLevel ERROR
"""


def _client(folder: Path, program: str, peers: list[Peer]) -> str:
    """Return a client script that knows the job's tasks, and runs the image's client for other hosts.

    One configuration for both would have to include the machine's, which ssh refuses if it does not trust the
    owner, as in a user namespace, where that is nobody.
    """
    roles = dict.fromkeys(name for peer in peers for name in spellings(peer.role))
    tasks = " | ".join(f"{role}-[0-9]*" for role in roles) or "-"
    by_ours = "" if program == "ssh" else f"-S {quote(str(folder / 'bin/ssh'))} "
    return f"""\
#!/bin/sh
set -f
bundled() {{
    [ -x {BUNDLED}/{program} ] || return 0
    export {use_accounts(quote(str(folder)))}
    exec {BUNDLED}/{program} {by_ours}"$@"
}}
for word in "$@"; do
    host=${{word#*://}}
    host=${{host##*@}}
    case ${{host%%[:/]*}} in
    {tasks})
        set -- -F {quote(str(folder / "config"))} "$@"
        bundled "$@"
        break
        ;;
    esac
done
IFS=:
for folder in $PATH; do
    if [ "$folder" != {quote(str(folder / "bin"))} ] && [ -x "$folder/{program}" ]; then
        exec "$folder/{program}" "$@"
    fi
done
unset IFS
bundled "$@"
echo "{program}: this image has no ssh client; install openssh-client in the image" >&2
exit 127
"""


def _expanded(folder: Path) -> str:
    """Return a path with percent signs doubled, for sshd's and ssh's expansion."""
    return str(folder).replace("%", "%%")
