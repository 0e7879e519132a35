# shellcheck shell=sh disable=SC2154
# Checks one mount. Before it: path, source, kind (storage or nfs), read_only (yes, or empty), options, seconds.

fail() {
    echo "$source at $path: $1" >&2
    exit 1
}

# Sets $type and $modes from what is mounted at the folder itself; $type is empty if nothing is, for $reason.
look() {
    type='' modes='' reason=''
    if ! folder=$(cd -P -- "$path" 2>&1 && pwd -P); then
        reason=": $folder"
        return 0
    fi
    while read -r _ _ _ _ point mode rest; do
        case $point in
            *\\*) point=$(printf '%b.' "$point") && point=${point%.} ;;
        esac
        if [ "$point" = "$folder" ]; then
            rest=${rest#*- }
            type=${rest%% *} modes=,$mode,${rest##* },
        fi
    done </proc/self/mountinfo
}

mount_export() {
    capabilities=0
    while read -r name value; do
        [ "$name" != CapEff: ] || capabilities=$value
    done </proc/self/status
    [ $((0x$capabilities >> 21 & 1)) = 1 ] ||
        fail "nothing is mounted there, and this container may not mount (it lacks CAP_SYS_ADMIN)"
    command -v mount >/dev/null || fail "nothing is mounted there, and the image has no program mount"
    mkdir -p -- "$path" || fail "cannot create the directory"
    if ! said=$(mount -t nfs4 -o "$options" "$source" "$path" 2>&1); then
        case $(cat /proc/filesystems) in
            *nfs4*) fail "cannot be mounted: $said" ;;
            *) fail "cannot be mounted, because this kernel has no NFS: $said" ;;
        esac
    fi
}

check() {
    look
    if [ -z "$type" ] && [ "$kind" = nfs ]; then
        mount_export
        look
    fi
    [ -n "$type" ] || fail "nothing is mounted there$reason"
    case $kind,$type in
        nfs,nfs* | storage,*) ;;
        *) fail "expected NFS, found $type mounted there" ;;
    esac
    cd -P -- "$path" || fail "cannot be entered"
    # Asks the file system itself, which a folder's name and rights do not.
    if command -v df >/dev/null; then
        said=$(df -P . 2>&1) || fail "does not answer: $said"
    fi
    case $modes,$read_only in
        *,ro,*,) fail "is mounted read-only, expected writable" ;;
        *,ro,*,yes) access=read-only ;;
        *,yes) fail "is mounted writable, expected read-only" ;;
        *) access=writable ;;
    esac
    if [ "$access" = writable ] && [ ! -w . ]; then
        access="writable, but not by this user in its top directory"
    fi
    echo "$source is at $path ($type, $access)"
}

case "
${PAI_LOCAL_FOLDERS:-}
" in
    *"
$path
"*) kind=storage ;; # a directory of this machine stands for the export
esac

# The check ends the timer. One that is stuck in the kernel cannot be waited for, and the timer can.
sleep "$seconds" >/dev/null 2>&1 &
timer=$!
{
    status=0
    (check) || status=$?
    kill "$timer" 2>/dev/null
    exit "$status"
} &
checking=$!
late=0
wait "$timer" 2>/dev/null || late=$?
if [ "$late" = 0 ]; then
    kill -KILL "$checking" 2>/dev/null
    fail "timed out after $seconds s"
fi
wait "$checking"
