"""Plugins for storage, which add mounts to a plan, and a check before the task."""
