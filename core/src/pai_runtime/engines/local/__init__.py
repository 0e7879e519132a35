"""The engine of this machine, whose tasks are processes."""
