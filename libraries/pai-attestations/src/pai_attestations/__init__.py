"""Who built a plugin: attestations of its wheel (PEP 740) are verified, and a policy says so."""
