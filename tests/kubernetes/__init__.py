"""The engine for Kubernetes: its parts alone, and against a stand-in for an API server."""
