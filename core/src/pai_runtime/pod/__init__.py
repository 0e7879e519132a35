"""The parts of a pod: its init container makes the plan, and its task container executes it."""
