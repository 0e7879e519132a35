"""The task as it is on disk, and what all code that runs parts of a task needs.

It needs the standard library only, and knows nothing of what plans a task or starts it. `pai_task.supervisor`
is the process that runs it.
"""
