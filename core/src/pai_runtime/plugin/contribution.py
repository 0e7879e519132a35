"""The contribution of a use to the plan of a task, validated at the line that creates it."""

from __future__ import annotations

from pai_task.record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from pai_task.plan import Mount, Service
    from pai_task.vocabulary import Event, FailurePolicy


@record(frozen=True)
class ShellStep:
    """A shell script for one event of the task, run in one shell.

    `failure_policy` None means that of the use. Raises TypeError or ValueError for values that no plan can
    hold.
    """

    event: Event
    script: str
    failure_policy: FailurePolicy | None = None

    def __post_init__(self) -> None:
        from pai_runtime.plugin.contribution_checks import check_step  # noqa: PLC0415 - as below

        check_step(self)


@record(frozen=True)
class Contribution:
    """The contribution of one use to the plan of one task.

    `environment` is set before the first step, and for the user's command too. Several `steps` for one event
    run in their order. `secrets` names the platform's secrets that the use's hooks find in ``use.secrets``:
    ``run``, a random string that the tasks of one run share and nobody else knows; on a cluster also the
    user's own, as JSON, such as ``jobSSH`` and ``sshKeys``. `exit_rules` are entries of an exit spec, for the
    plugin that analyses failures. `warnings` are shown before the job runs. `permanent_codes` (1 to 255) are
    exit codes of the task that only failures have which a retry cannot mend: a cluster's controllers, which
    see the code alone, do not retry a task that ends with one.

    Raises TypeError or ValueError for invalid values, including those of services and mounts.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[ShellStep] = ()
    services: Sequence[Service] = ()
    mounts: Sequence[Mount] = ()
    secrets: Sequence[str] = ()
    exit_rules: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    permanent_codes: Collection[int] = ()

    def __post_init__(self) -> None:
        # Late: the hooks of a task make no contributions.
        from pai_runtime.plugin.contribution_checks import check_contribution  # noqa: PLC0415

        check_contribution(self)
