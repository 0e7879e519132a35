"""Entries of policies for what is installed: ``plugins allow``, ``freeze`` and ``freeze --update``.

They read metadata and import no plugin, whatever the policies in force say of it.
"""

from collections.abc import Sequence
from pathlib import Path

import yaml

from pai_runtime.host.discovery import Plugin
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.metadata import normalized
from pai_runtime.host.policy import freeze, read_policy
from pai_runtime.host.policy_text import Entry, put_entries
from pai_runtime.job.model import plugin_id
from pai_runtime.terminal.output import say, write_lines
from pai_task.exit_codes import INVALID


def allow(name: str, file: Path | None, *, downgrade: bool) -> int:
    """Print the entries for a plugin, or for all of a distribution, or put them into a policy file.

    Raises `Unavailable` if it is not installed, or could not be used under any policy, and ValueError if its
    code has no digest.
    """
    return put([freeze(plugin) for plugin in named(name)], file, downgrade=downgrade)


def put(entries: Sequence[Entry], file: Path | None, *, downgrade: bool) -> int:
    """Print entries, or put them into a policy file. Return 1 if it keeps what it has instead of one."""
    if file is None:
        write_lines(f"  {line}" for line in yaml.safe_dump(entries, sort_keys=False, width=1000).splitlines())
        return 0
    changed, kept = put_entries(file, entries, downgrade=downgrade)
    for entry in changed:
        say(f"{file}: {entry['id']} is allowed from {entry['distribution']} {entry['versions'][2:]}")
    for reason in kept:
        say(f"{file}: left as it is: {reason}")
    if not changed and not kept:
        say(f"{file}: nothing to change")
    return INVALID if kept else 0


def frozen(host: Host) -> int:
    """Print a policy that allows what is installed and allowed, with digests."""
    entries = []
    for id_ in host.installed:
        reason = host.refusal(id_)
        try:
            if reason is None:
                plugin = host.installed[id_][0]
                built_by = host.built_by(plugin)
                entries.append(freeze(plugin) | ({"builtBy": built_by} if built_by else {}))
        except ValueError as error:
            reason = str(error)
        if reason is not None:
            say(f"left out: {' and '.join(plugin.label for plugin in host.installed[id_])}: {reason}")
    if not entries:
        say("nothing can be frozen; this policy refuses every plugin")
    policy = {"policyVersion": 1, "plugins": entries}
    write_lines(yaml.safe_dump(policy, sort_keys=False, width=1000).splitlines())
    return 0


def update(file: Path, *, downgrade: bool) -> int:
    """Make the entries of a policy file match what is installed. Return 1 if something of it is not."""
    host, entries, complete = Host(), [], True
    listed = [(entry.id, entry.distribution) for entry in read_policy(file).allowed or ()]
    for id_, distribution in dict.fromkeys(listed):
        try:
            plugin = host.find(id_)
            entry = freeze(plugin)
        except (Unavailable, ValueError) as error:
            say(f"left as it is: {error}")
            complete = False
            continue
        if normalized(plugin.distribution) == normalized(distribution):
            entries.append(entry)
        else:
            say(f"left as it is: {plugin.label} is not from the distribution {distribution}")
            complete = False
    status = put(entries, file, downgrade=downgrade)
    return status if complete else INVALID


def named(name: str) -> list[Plugin]:
    """Return the installed plugin with an id or short name, or those of a distribution.

    Policies are not asked. Raises `Unavailable`.
    """
    host = Host()
    if plugin_id(name) not in host.installed:
        of_it = [id_ for id_ in host.installed if _is_of(host.installed[id_], name)]
        if of_it:
            return list(map(host.find, of_it))
    return [host.find(plugin_id(name))]


def _is_of(claimants: Sequence[Plugin], distribution: str) -> bool:
    return any(normalized(plugin.distribution) == normalized(distribution) for plugin in claimants)
