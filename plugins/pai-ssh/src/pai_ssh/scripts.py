"""The task's shell scripts, which run in any image with a shell."""

from pathlib import Path
from shlex import quote

from pai_runtime.plugin import BUNDLE, port_is_taken

FOLDER = "PAI_SSH_DIR"
"""The name of the environment variable with the folder of the files."""

CHECKED = "checked"
"""The file in the folder which says that sshd can be started."""

ACCOUNTS = "passwd"
"""The file in the folder with the bundle's users, in the place of ``/etc/passwd``."""

BUNDLED = f"{BUNDLE}/ssh/bin"
"""The path of the runtime's own OpenSSH in a pod; it takes precedence, since it is known to fit."""


def use_accounts(folder: str) -> str:
    """Return the variable assignments by which bundled programs find `ACCOUNTS` in a folder (shell word)."""
    return f"NSS_WRAPPER_PASSWD={folder}/{ACCOUNTS} NSS_WRAPPER_GROUP={folder}/group"


# Some images have not even what we need of the usual programs.
_HAVE_THE_USUAL_PROGRAMS = f"PATH=$PATH:{BUNDLE}/applets"

_FIND_SHELL = f"sh=$(command -v sh) || sh={BUNDLE}/bin/bash"

_FIND_SSHD = f"""\
sshd={BUNDLED}/sshd
[ -x "$sshd" ] || sshd=$(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; command -v sshd)"""

_USE_ACCOUNTS = use_accounts(f'"${FOLDER}"')

# Not left to sshd, which goes on if only some of its addresses are free.
_REFUSE_A_TAKEN_PORT = f"""\
(
    read -r _ port <"${FOLDER}/sshd_config"
    {port_is_taken('"$port"')} || exit 0
    echo "[ERROR] ssh: port $port, where sshd is to listen, is taken by another process" >&2
    exit 1
) || exit 1
"""

# As root, sshd has another user, in a directory of its own, deal with those who have not logged in yet.
_REFUSE_A_POWERLESS_ROOT = """\
while read -r name value _; do
    case $name in
    Uid:) uid=$value ;;
    Gid:) gid=$value ;;
    CapEff:) capabilities=$value ;;
    esac
done </proc/self/status
setgid=0x40 setuid=0x80 sys_chroot=0x40000
missing=$(((setgid | setuid | sys_chroot) & ~0x$capabilities))
if [ "$uid" = 0 ] && [ $missing != 0 ]; then
    echo "[ERROR] ssh: as root, sshd needs the capabilities SETGID, SETUID and SYS_CHROOT, which this" \\
        "container lacks; add them, or run the task as another user, who needs none" >&2
    exit 1
fi
"""

_PREPARE_THE_IMAGES = """\
id -un >/dev/null 2>&1 || {
    echo "[ERROR] ssh: user $(id -u) has no name in /etc/passwd, and sshd lets in nobody without" >&2
    exit 1
}
if [ "$(id -u)" = 0 ] && [ ! -d /run/sshd ]; then
    (umask 022; mkdir -p /run/sshd) || exit 1
fi
"""

_PREPARE_THE_BUNDLED = f"bundle={quote(BUNDLE)}\n{Path(__file__).with_name('bundled.sh').read_text('utf-8')}"

PREPARE = f"""\
(
cd "${FOLDER}" || {{
    echo "[ERROR] ssh: its files are missing, because they could not be created" >&2
    exit 1
}}
{_FIND_SHELL}
{_HAVE_THE_USUAL_PROGRAMS}
{_FIND_SSHD} || {{
    echo "[ERROR] ssh: this image has no sshd, so nobody can log in; install openssh-server in the image" >&2
    exit 1
}}
{_REFUSE_A_POWERLESS_ROOT}\
umask 077
if [ "$sshd" = {BUNDLED}/sshd ]; then
{_PREPARE_THE_BUNDLED}\
else
{_PREPARE_THE_IMAGES}\
fi
export {_USE_ACCOUNTS}
# At level 1, bash does not read ~/.bashrc before each session; versions before 7.8 have no SetEnv.
if "$sshd" -t -f "${FOLDER}/sshd_config" -o SetEnv=SHLVL=1 2>/dev/null; then
    echo "SetEnv SHLVL=1" >>sshd_config
else
    "$sshd" -t -f "${FOLDER}/sshd_config" || exit 1
fi
{_REFUSE_A_TAKEN_PORT}\
) || exit 1
if [ -e "${FOLDER}/config" ]; then
    command -v ssh >/dev/null || [ -x {BUNDLED}/ssh ] ||
        echo "[WARNING] ssh: this image has no ssh client, so no other task can be reached from here" >&2
    export PATH="${FOLDER}/bin:$PATH"
fi
: >"${FOLDER}/{CHECKED}"
"""

SERVE = f"""\
[ -e "${FOLDER}/{CHECKED}" ] || exit 0
{_FIND_SHELL}
(
    umask 077
    "$sh" -c '
        unset SSH_ORIGINAL_COMMAND SSH_CLIENT SSH_CONNECTION SSH_TTY SSH_AUTH_SOCK
        unset TERM SHELL USER LOGNAME PWD OLDPWD SHLVL
        export -p
    ' >"${FOLDER}/environment"
)
{_HAVE_THE_USUAL_PROGRAMS}
{_FIND_SSHD}
{_REFUSE_A_TAKEN_PORT}\
rm -f "${FOLDER}/sshd.pid"
echo "[INFO] start ssh service"
export {_USE_ACCOUNTS}
exec "$sshd" -D -e -f "${FOLDER}/sshd_config"
"""

PROBE = f'[ -s "${FOLDER}/sshd.pid" ]\n'
