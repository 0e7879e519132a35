"""The shell scripts of the task, which any image with a shell can run."""

from pai_runtime.plugin import port_is_taken

FOLDER = "PAI_SSH_DIR"
"""The environment variable with the folder of the files."""

CHECKED = "checked"
"""A file there which says that sshd can be started."""

_SSHD = "$(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; command -v sshd)"

# Not left to sshd, which goes on if only some of its addresses are free.
_REFUSE_A_TAKEN_PORT = f"""\
(
    read -r _ port <"${FOLDER}/sshd_config"
    {port_is_taken('"$port"')} || exit 0
    echo "[ERROR] ssh: port $port, where sshd is to listen, is taken by another process" >&2
    exit 1
) || exit 1
"""

PREPARE = f"""\
cd "${FOLDER}" || {{
    echo "[ERROR] ssh: its files are missing, because they could not be created" >&2
    exit 1
}}
sshd={_SSHD} || {{
    echo "[ERROR] ssh: this image has no sshd, so nobody can log in; install openssh-server in the image" >&2
    exit 1
}}
id -un >/dev/null 2>&1 || {{
    echo "[ERROR] ssh: user $(id -u) has no name in /etc/passwd, and sshd lets in nobody without" >&2
    exit 1
}}
if [ "$(id -u)" = 0 ] && [ ! -d /run/sshd ]; then
    (umask 022; mkdir -p /run/sshd)
fi
# At level 1, bash does not read ~/.bashrc before each session; versions before 7.8 have no SetEnv.
if "$sshd" -t -f "${FOLDER}/sshd_config" -o SetEnv=SHLVL=1 2>/dev/null; then
    echo "SetEnv SHLVL=1" >>sshd_config
else
    "$sshd" -t -f "${FOLDER}/sshd_config" || exit 1
fi
{_REFUSE_A_TAKEN_PORT}\
if [ -e config ]; then
    command -v ssh >/dev/null ||
        echo "[WARNING] ssh: this image has no ssh client, so no other task can be reached from here" >&2
    export PATH="${FOLDER}/bin:$PATH"
fi
: >{CHECKED}
"""

SERVE = f"""\
[ -e "${FOLDER}/{CHECKED}" ] || exit 0
sshd={_SSHD}
{_REFUSE_A_TAKEN_PORT}\
rm -f "${FOLDER}/sshd.pid"
(
    umask 077
    sh -c '
        unset SSH_ORIGINAL_COMMAND SSH_CLIENT SSH_CONNECTION SSH_TTY SSH_AUTH_SOCK
        unset TERM SHELL USER LOGNAME PWD OLDPWD SHLVL
        export -p
    ' >"${FOLDER}/environment"
)
echo "[INFO] start ssh service"
exec "$sshd" -D -e -f "${FOLDER}/sshd_config"
"""

PROBE = f'[ -s "${FOLDER}/sshd.pid" ]\n'
