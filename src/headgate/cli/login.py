"""Who types: the default of `--by`."""

from __future__ import annotations


def login() -> str:
    """The login name; nothing where there is none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
