"""The engine for Kubernetes, which runs a job as a JobSet."""
