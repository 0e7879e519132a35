"""The commands that this distribution adds to ``pai-runtime``."""
