"""The task supervisor: runs one task's plan around the user's command.

Standard library only, and nothing from the rest of the package: it starts fast, and it can be copied into
any image. Run as ``python -m pai_runtime.task FOLDER`` (see `pai_runtime.task.main`).
"""
