"""The presentation of runs in a terminal; the only code that writes text for users."""
