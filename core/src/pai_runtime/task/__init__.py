"""What a task is on disk, whoever writes or reads it.

Standard library only, and nothing else of the package.
"""
