"""The plugin ``com.microsoft.pai.runtimeplugin.failure_analysis``: why a task did not end well."""
