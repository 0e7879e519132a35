"""The runtime of deep-learning jobs: what runs in the container around a user's command."""

__version__ = "0.1.0"
