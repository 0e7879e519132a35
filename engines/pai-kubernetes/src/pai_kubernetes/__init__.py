"""The engine for Kubernetes: a job as a JobSet."""
