"""A dashboard and an HTTP API for operators, and for programs in any language: `headgate[web]`.

    app.mount("/queue", headgate.web.asgi(jobs, auth=role_of))

Everything here stands on the public operations of an app; `headgate web` serves it as a program of its own.
"""

try:
    import starlette  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ImportError as error:
    from headgate.errors import ConfigError

    raise ConfigError("headgate.web needs the extra: pip install 'headgate[web]'") from error

from headgate.web.asgi import asgi
from headgate.web.roles import Identity, Role
from headgate.web.tokens import Tokens, new_token, tokens_from

__all__ = ["Identity", "Role", "Tokens", "asgi", "new_token", "tokens_from"]
