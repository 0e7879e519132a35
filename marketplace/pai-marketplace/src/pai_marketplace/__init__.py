"""A marketplace of shared prerequisites and jobs: server and pages."""
