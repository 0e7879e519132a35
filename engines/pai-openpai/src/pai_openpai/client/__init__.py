"""The client's side: jobs on an OpenPAI cluster, through its REST server and its log-manager."""
