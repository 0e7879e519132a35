"""A plan as text: its environment, mounts and steps in order, with their sources."""

from collections.abc import Iterator

from pai_task.placeholders import show
from pai_task.plan import PEERS, PLATFORM, Mount, Plan, PlannedMount, PlannedService, Step, UseRecord
from pai_task.vocabulary import Phase

ORDER: tuple[Phase, ...] = (
    "init",
    "taskStarts",
    "command",
    "analysis",
    "taskSucceeds",
    "taskFails",
    "taskExits",
    "runEnds",
)
"""The phases in the order in which a plan is read: of those for success and failure, one task has one."""

_MOST_PEERS = 50
"""Maximum number of variables about other tasks that are listed."""


def plan_lines(plan: Plan, alike: int = 1) -> Iterator[str]:
    """Yield the lines of a plan, unescaped; `alike` is the number of identical tasks from this one on."""
    first = f"{plan.role}/{plan.index}"
    if alike == 1:
        yield f"task {first} of job {plan.job}"
    else:
        yield f"tasks {first} to {plan.role}/{plan.index + alike - 1} of job {plan.job}"
        yield f"  identical except for index and ports; shown for {first}"
    for warning in plan.warnings:
        yield f"  warning: {warning}"
    yield "  environment"
    sources = {PLATFORM, PEERS, *(variable.source for variable in plan.environment)}
    width = max(map(len, sources))
    peers = list(plan.shared.peers.items())
    for source, variables in (PLATFORM, plan.shared.platform.items()), (PEERS, peers[:_MOST_PEERS]):
        for name, value in variables:
            yield f"    {source:{width}}  {name}={show(value)}"
    if more := peers[_MOST_PEERS:]:
        yield f"    {PEERS:{width}}  {len(more)} more; to show them: pai-runtime plan --json --task {first}"
    for variable in plan.environment:
        yield f"    {variable.source:{width}}  {variable.name}={show(variable.value)}"
    for mount in plan.mounts:
        yield from _mount(plan, mount)
    for phase in ORDER:
        yield from _phase(plan, phase)


def steps_in_order(plan: Plan, phase: Phase) -> list[Step]:
    """Return the steps of a phase in the order in which they run."""
    reverse = phase not in ("init", "taskStarts", "analysis")
    return sorted(plan.steps_of(phase), key=lambda step: -step.use if reverse else 0)


def _phase(plan: Plan, phase: Phase) -> Iterator[str]:
    if phase == "command":
        nounset = ", unset variables are errors" if plan.command.nounset else ""
        yield f"  command  {plan.command.source}{nounset}"
        yield from _indented(plan.command.script)
        if wanted := plan.command.on_preemption:
            yield f"  onPreemption  {', '.join(filter(None, [wanted.signal, f'{wanted.seconds:g} s']))}"
            yield from _indented(wanted.script) if wanted.script else ()
    if phase == "analysis" and plan.exit_rules:
        names = dict.fromkeys(plan.uses[planned.use].name for planned in plan.exit_rules)
        yield f"  {len(plan.exit_rules)} exit rules  {', '.join(names)}"
    for step in steps_in_order(plan, phase):
        yield from _step(plan, step)
    if phase == "taskStarts":
        for planned in plan.services:
            yield from _service(plan, planned)


def _step(plan: Plan, step: Step) -> Iterator[str]:
    use = plan.uses[step.use]
    policy = ", failures are ignored" if step.failure_policy == "ignore" else ""
    yield f"  {step.phase}  {use.name}  {use.source}  {use.plugin} ({use.distribution} {use.version}){policy}"
    yield from _way(use)
    yield from _indented(step.script if step.script is not None else f"(Python: {step.hook})")


def _service(plan: Plan, planned: PlannedService) -> Iterator[str]:
    use, service = plan.uses[planned.use], planned.service
    required = ", the command waits for it" if service.required else ""
    yield f"  service {service.name}  {use.name}  {use.source}  {use.plugin}{required}"
    yield from _way(use)
    yield from _indented(service.script)


def _mount(plan: Plan, planned: PlannedMount) -> Iterator[str]:
    use, mount = plan.uses[planned.use], planned.mount
    yield f"  mount {mount.path}  {use.name}  {use.source}  {mount_source(mount)}"
    yield from _way(use)


def mount_source(mount: Mount) -> str:
    """Return what is mounted, and whether it is read-only."""
    source = "/".join(filter(None, [f"{mount.kind} {mount.source}", mount.sub_path]))
    return f"{source}, read-only" if mount.read_only else source


def _way(use: UseRecord) -> Iterator[str]:
    """Yield a line with the chain of references to a shared prerequisite, if the use comes from one."""
    if use.via:
        yield f"    via {' ← '.join(use.via)}"


def _indented(script: str) -> Iterator[str]:
    # Not `splitlines`: to a shell, nothing else ends a line.
    for line in show(script).removesuffix("\n").split("\n"):
        yield f"    {line}"
