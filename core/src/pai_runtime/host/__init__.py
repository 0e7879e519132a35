"""The plugin host: what is installed, what is allowed, the one import, and the calls."""
