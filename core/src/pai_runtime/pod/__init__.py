"""What happens in a pod: the init container, and the task container."""
