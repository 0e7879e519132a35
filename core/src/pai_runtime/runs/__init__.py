"""A run as it is kept on disk and read, whichever engine ran it."""
