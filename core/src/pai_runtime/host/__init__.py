"""The plugin host: discovery of installed plugins, policy, import and calls."""
