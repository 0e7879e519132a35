"""Jobs of version 1 of the protocol, which are JSON, and their conversion to version 2."""
