"""The exception for a cluster that does not do what it is asked."""


class ClusterError(Exception):
    """The exception for a cluster that cannot be reached or refuses; the text says why and what to do."""
