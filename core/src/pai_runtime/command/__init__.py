"""The public API for commands that work on jobs and definitions; what is in no `__all__` here is not public.

A command is a module that the manifest of a plugin names, with ``add_arguments(parser)`` and
``main(args, output)``. All that most need is `pai_runtime.plugin`, with its `Output`. In ``arguments`` are
the arguments that commands of the runtime have too, in ``jobs`` jobs under the policies in force, in ``runs``
the runs that a command line names, in ``policies`` their entries, in ``schemas`` the schemas of files that
people write, and in ``output`` the words and forms in which the runtime tells what it has found.
"""
