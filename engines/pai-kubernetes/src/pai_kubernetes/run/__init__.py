"""A run on Kubernetes: its submission, its state from its objects, and its logs."""
