"""What a plugin raises to report an error to the user."""


class UserError(Exception):
    """An error that the user can fix: parameters that make no sense, a server that does not answer.

    The message is shown unchanged, after the names of plugin and use. Any other exception counts as a bug of
    the plugin, and is shown with its class and its position in the code.
    """
