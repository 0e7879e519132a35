"""``pai-runtime completion``: a script by which a shell completes commands, options, runs, tasks and plugins.

The script knows the commands of when it was written, and looks for runs and tasks itself: while somebody
waits for what follows a key, no Python is started.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import shtab

from pai_runtime.command.arguments import whole_parser
from pai_runtime.command.jobs import PLUGIN_PREFIX, given_host
from pai_runtime.command.output import write_lines
from pai_runtime.plugin import Output

_SHELLS: Final = ("bash", "zsh", "fish")
_RUNS: Final = "runs"
_TASKS: Final = "tasks"
_PLUGINS: Final = "plugins"
_KINDS: Final = {
    **dict.fromkeys(("RUN", "LOG|RUN"), _RUNS),
    **dict.fromkeys(("ROLE[/INDEX]", "TASK", "TASK:PATH"), _TASKS),
    "ID": _PLUGINS,
    **dict.fromkeys(("JOB", "FILE", "PATH", "DEST", "SOURCE"), "file"),
    "DIR": "directory",
}
"""What an argument is, by how its help calls it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=f"the shell: {', '.join(_SHELLS)}")


def main(args: argparse.Namespace, _: Output) -> int:
    """Return exit status 0."""
    ids = [plugin.id for plugin in given_host(None).usable]
    names = sorted({*ids, *(id_.removeprefix(PLUGIN_PREFIX) for id_ in ids)})
    functions = Path(__file__).with_name(f"functions.{args.shell}").read_text("utf-8")
    parser = whole_parser()
    _put_below(parser)
    for each in _parsers(parser):
        _say_what_follows(each)
    preamble = functions.replace("@PLUGINS@", " ".join(names))
    write_lines(shtab.complete(parser, args.shell, preamble=preamble).split("\n"))
    return 0


def _put_below(parser: argparse.ArgumentParser) -> None:
    """Put commands of several words, such as ``plugins new``, below the first ones, as people type them."""
    choices = _commands(parser).choices
    for name in [name for name in choices if " " in name]:
        command, (*above, last) = choices.pop(name), name.split()
        group = parser
        for word in above:
            known = _commands(group)
            if word not in known.choices:
                known.add_parser(word).add_subparsers()
            group = known.choices[word]
        _commands(group).choices[last] = command


def _commands(parser: argparse.ArgumentParser) -> Any:
    """Return the action of a parser that has commands."""
    return next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))  # noqa: SLF001 - argparse shows it nowhere else


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands, which it lists where shtab looks for their names."""
    yield parser
    for action in parser._actions:  # noqa: SLF001 - as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            said = {each.dest: each.help for each in action._choices_actions}  # noqa: SLF001 - as above
            action.help = "command"
            action._choices_actions = [  # noqa: SLF001 - as above
                action._ChoicesPseudoAction(  # noqa: SLF001 - as above
                    name, (), each.description or said.get(name) or ""
                )
                for name, each in action.choices.items()
            ]
            for each in action.choices.values():
                yield from _parsers(each)


def _say_what_follows(parser: argparse.ArgumentParser) -> None:
    """Say of the arguments of a parser by what the shell completes them."""
    for action in parser._actions:  # noqa: SLF001 - as above
        kind = _KINDS.get(str(action.metavar))
        if kind and not action.choices and action.nargs != 0:
            known: dict[str, Any] = {"file": shtab.FILE, "directory": shtab.DIRECTORY}
            function = f"_pai_runtime_{kind}"
            action.complete = known.get(  # type: ignore[attr-defined] # as shtab has it
                kind, {"bash": function, "zsh": function, "fish": f"({function})"}
            )
