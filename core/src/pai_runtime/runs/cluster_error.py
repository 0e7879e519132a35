"""A cluster that does not do what it is asked."""


class ClusterError(Exception):
    """A cluster cannot be asked, or refuses; the message says whose fault it is and what to do."""
