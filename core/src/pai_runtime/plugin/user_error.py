"""The error of a plugin that speaks to the user."""


class UserError(Exception):
    """Why a use cannot be done, in words for the user: parameters that make no sense, a server that is gone.

    The message is shown as it is, after the names of plugin and use. Any other exception is taken for a
    mistake in the plugin, and shown with its class and its place in the code.
    """
