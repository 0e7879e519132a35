"""The task as it is on disk, and what all code that runs parts of a task needs.

Standard library only, and nothing else of the package.
"""
