"""The job file: its schema and rules, its references and prerequisites."""
