"""A stand-in for an OpenPAI cluster: its REST server, its log-manager, and tasks that are processes."""
