"""The variables that change the behaviour of the bundle's own programs."""

OBEYED_NAMES = (
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "LANG",
    "LANGUAGE",
    "LOCPATH",
    "NLSPATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
)
OBEYED_PREFIXES = ("LC_", "LD_", "MALLOC_")
"""Variables of an image that would change the behaviour of the bundle's own programs."""

OWN_VARIABLES = {"LC_ALL": "C", "TZ": "UTC0"}
"""Variables of the bundle's interpreter, so that it opens no locale or time zone file of the image."""


def is_obeyed(name: str) -> bool:
    """Return whether a variable would change the behaviour of the bundle's programs."""
    return name in OBEYED_NAMES or name.startswith(OBEYED_PREFIXES)
