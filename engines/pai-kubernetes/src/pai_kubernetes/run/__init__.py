"""A run on Kubernetes: what its objects say, and following it."""
