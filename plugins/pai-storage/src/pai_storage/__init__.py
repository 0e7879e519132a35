"""Plugins for storage: each of them adds mounts to a plan, and a check before the task."""
