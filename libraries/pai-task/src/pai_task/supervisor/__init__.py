"""The process that runs one task's plan around the user's command.

Like all of `pai_task`, it needs the standard library only: it starts fast, and can be copied into any image.
Run as ``python -m pai_task.supervisor FOLDER``.
"""
