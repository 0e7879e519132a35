"""The engine of this machine: tasks are its processes."""
