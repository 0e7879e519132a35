"""Tasks in pods: the init container makes the plan of a task, and the task container executes it.

Each is a container of its own. The init container has the runtime image, the task container anyone's: what
is run there comes from the bundle (`pai_pod.bundle`), by the volume that both share.
"""
