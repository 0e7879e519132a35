"""Jobs of version 1 of the protocol, which are JSON, and what they are in version 2."""
