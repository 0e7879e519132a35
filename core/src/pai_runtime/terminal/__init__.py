"""What users see of a run in a terminal; the only writer of text for users."""
