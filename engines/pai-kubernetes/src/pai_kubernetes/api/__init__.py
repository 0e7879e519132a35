"""What asks the Kubernetes API."""
