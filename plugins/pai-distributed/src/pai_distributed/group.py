"""The tasks that train together, in the order of their ranks."""

from collections.abc import Iterator, Mapping

from pai_distributed.addresses import Address, address_of
from pai_runtime.plugin import Task, Use, UserError

PORT = "distributed"
"""The label of the port at which tasks meet."""


Member = tuple[str, int]
"""A task of a group: its role and its index."""


class Group:
    """The group of a task: its `members` by rank, the `rank` of the task, and what the platform tells."""

    def __init__(self, task: Task, roles: tuple[str, ...], told: Mapping[str, str]) -> None:
        self.members = [(role, index) for role in roles for index in range(task.instances[role])]
        self.rank = self.members.index((task.role, task.index))
        self._told = told

    def address(self, member: Member) -> Address:
        """Return where the member listens. Raises `UserError` if it is not known."""
        return address_of(self._told, *member, PORT)

    def processes(self, role: str) -> int:
        """Return how many processes a launcher starts in a task of the role: one for each GPU, or one."""
        gpus = self._told.get(f"PAI_RESOURCE_{role}", "0").partition(",")[0]
        return max(1, int(gpus))


def roles_of(use: Use, task: Task) -> tuple[str, ...]:
    """Return the roles whose tasks train together, by rank. Raises `UserError` for an unknown one."""
    named: tuple[str, ...] = tuple(use.parameters.get("roles", (task.role,)))
    if unknown := [role for role in named if role not in task.instances]:
        known = ", ".join(task.instances)
        raise UserError(f"roles: expected task roles of the job, found {', '.join(unknown)}; known: {known}")
    if len(set(named)) < len(named):
        raise UserError(f"roles: expected each of them once, found {', '.join(named)}")
    return named


def slots(group: Group, given: int | None) -> Iterator[tuple[Member, int]]:
    """Yield each member with the number of processes that a launcher starts in it."""
    by_role = {role: given or group.processes(role) for role, _ in group.members}
    return ((member, by_role[member[0]]) for member in group.members)
