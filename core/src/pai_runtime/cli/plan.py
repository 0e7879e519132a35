"""``pai-runtime plan``: shows what each task will do."""

import argparse
import shlex
import sys

from pai_document.problems import InvalidInput, Problems
from pai_runtime.cli.arguments import add_debug, add_job, add_json, add_policy, task_or_role
from pai_runtime.cli.chosen_tasks import NoSuchTask, chosen_tasks
from pai_runtime.cli.overrides import add_overrides, given_overrides
from pai_runtime.cli.user import user_name
from pai_runtime.engines.local.placement import example_placement
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.plan.build import Planner
from pai_runtime.plan.definitions import JobDefinitions
from pai_runtime.plan.planning import JobFiles, plan_job
from pai_runtime.plan.show import plan_lines
from pai_runtime.terminal.output import columns, report_problems, say, write_json, write_lines
from pai_runtime.terminal.plan_page import plan_page
from pai_task.exit_codes import CANNOT_RUN, INVALID
from pai_task.plan import Plan, plans_to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_job(parser)
    add_overrides(parser)
    add_policy(parser)
    add_json(parser)
    add_debug(parser)
    parser.add_argument(
        "--full",
        action="store_true",
        help="show all of it: environment, scripts, positions, plugins with their versions",
    )
    parser.add_argument(
        "--task",
        type=task_or_role,
        metavar="ROLE[/INDEX]",
        help="show this task only, such as worker/0, or the tasks of this role",
    )


def main(args: argparse.Namespace) -> int:
    """Return exit status 0; 1 if there is no plan; 2 if there is no such task."""
    host, problems, user = given_host(args.policy), Problems(), user_name()
    try:
        definitions = JobDefinitions(host, args.job)
        files = JobFiles(args.job, args.secrets, given_overrides(args), definitions)
        planner = plan_job(files, host, lambda job: example_placement(job, user), problems)
        groups = _groups(planner, args)
        problems.check()
        told = [each for each in problems.in_order if each.severity == "note" or (args.debug and each.frames)]
        report_problems(told, frames=args.debug)
    except InvalidInput as error:
        report_problems(error.problems, frames=args.debug)
        return INVALID
    except NoSuchTask as error:
        say(str(error))
        return CANNOT_RUN
    if args.json:
        plans = [plan for _, plan in groups]
        is_one = args.task and args.task[1] is not None
        write_json(plans[0].to_json() if is_one else plans_to_json(plans))
    elif args.full:
        for number, (alike, plan) in enumerate(groups):
            write_lines(["", *plan_lines(plan, alike)] if number else plan_lines(plan, alike))
    else:
        width = columns()
        write_lines(plan_page(groups, str(args.job), width))
        whole = shlex.join(["pai-runtime", *sys.argv[1:], "--full"])
        write_lines(["", f"variables, and whole scripts: {whole}"])
    return 0


def _groups(planner: Planner, args: argparse.Namespace) -> list[tuple[int, Plan]]:
    """Return the requested plans, each with the number of tasks that it stands for."""
    only = chosen_tasks(planner.job, [args.task]) if args.task else []
    if args.json or (args.task and args.task[1] is not None):
        return [(1, plan) for plan in planner.plans(*only).values()]
    return [(alike, plan) for alike, plan in planner.groups() if not only or (plan.role, plan.index) in only]
