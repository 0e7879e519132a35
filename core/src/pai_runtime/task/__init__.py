"""What a task is on disk, whoever writes or reads it, and what all need who run parts of one.

Standard library only, and nothing else of the package.
"""
