# shellcheck shell=sh disable=SC2154 # $bundle, $uid, $gid and $sh are set before
# Prepares the folder of the plugin's files, which is the working directory, for the OpenSSH of the bundle.

# Its users are those of ./passwd (libnss_wrapper): the image may know neither the task's user nor sshd's own,
# or have locked it. Root is always a name of the user, by which tasks log in whatever their images call it.
user=root home=$HOME shell=''
[ "$uid" = 0 ] || user=${PAI_USER_NAME:-root}
case $user in
sshd | -* | *[!A-Za-z0-9._-]*) user=root ;;
esac
if [ -f /etc/passwd ]; then
    while IFS=: read -r name _ id _ _ its_home its_shell; do
        if [ "$id" = "$uid" ]; then
            user=$name home=$its_home shell=$its_shell
            break
        fi
    done </etc/passwd
fi
[ -d "$home" ] || home=/
case $shell in
*/nologin | */false) shell='' ;;
esac
[ -f "$shell" ] && [ -x "$shell" ] || shell=$(command -v bash) || shell=$sh
{
    echo "$user:x:$uid:$gid::$home:$shell"
    [ "$user" = root ] || echo "root:x:$uid:$gid::$home:$shell"
    echo "sshd:x:65533:65533::/:/bin/false"
} >passwd || exit 1
echo "$user:x:$gid:" >group || exit 1

# What the files name may be elsewhere, or nowhere, in the image.
config=$(cat sshd_config)
{
    echo "${config%ForceCommand exec sh *}ForceCommand exec $sh ${config##*ForceCommand exec sh }"
    # Since OpenSSH 9.8 sshd has these as programs of their own.
    [ ! -e "$bundle/ssh/libexec/sshd-session" ] || echo "SshdSessionPath $bundle/ssh/libexec/sshd-session"
    [ ! -e "$bundle/ssh/libexec/sshd-auth" ] || echo "SshdAuthPath $bundle/ssh/libexec/sshd-auth"
} >sshd_config || exit 1
if [ -e config ]; then
    printf 'Host *\n    User root\n' >>config || exit 1
    for client in bin/*; do
        script=$(cat "$client")
        printf '#!%s\n%s\n' "$bundle/applets/sh" "$script" >"$client" || exit 1
    done
fi
