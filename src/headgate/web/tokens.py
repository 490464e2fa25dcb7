"""Bearer tokens: `name:role:secret`, from HEADGATE_WEB_TOKENS (with commas between them) or a file with one a line.

A secret is kept as its SHA-256 only; a file may give it as `sha256:HEX` instead of in the clear. Secrets are chosen by
machines and long, so that a plain hash is enough: `headgate web --new-token NAME:ROLE` makes one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import cast, get_args

from headgate.errors import ConfigError
from headgate.web.roles import ROLES, Identity, Role

VARIABLE = "HEADGATE_WEB_TOKENS"
SHORTEST = 16
HASHED = re.compile(r"sha256:([0-9a-f]{64})")


class Tokens:
    """Who has which secret. Looking one up takes the same time whether it is there or not."""

    def __init__(self, entries: Iterable[str], where: str) -> None:
        self._known: list[tuple[bytes, Identity]] = []
        for number, entry in enumerate(entries, 1):
            self._known.append(_read(entry, f"{where}, token {number}"))
        names = [identity.name for _, identity in self._known]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"{where}: two tokens are named {twice!r}; changes could not be told apart")

    def __len__(self) -> int:
        return len(self._known)

    def identity(self, secret: str) -> Identity | None:
        """The holder of a secret."""
        digest, found = _digest(secret), None
        for known, identity in self._known:
            if hmac.compare_digest(known, digest):
                found = identity
        return found


def tokens_from(text: str | None, file: str | None) -> Tokens | None:
    """From a variable's text and a file; None if there is neither."""
    if file is not None:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the tokens file {file} cannot be read: {error}") from None
        return Tokens([line for line in map(str.strip, lines) if line and not line.startswith("#")], file)
    if text:
        return Tokens([part.strip() for part in text.split(",") if part.strip()], VARIABLE)
    return None


def new_token(who: str) -> tuple[str, str]:
    """A new entry for NAME:ROLE: the secret, and the line for the file, which has only its hash."""
    name, _, role = who.partition(":")
    secret = secrets.token_urlsafe(32)
    _read(f"{name}:{role}:{secret}", "the new token")
    return secret, f"{name}:{role}:sha256:{_digest(secret).hex()}"


def _read(entry: str, where: str) -> tuple[bytes, Identity]:
    name, _, rest = entry.partition(":")
    role, _, secret = rest.partition(":")
    if not name or role not in get_args(Role) or not secret:
        raise ConfigError(f"{where}: NAME:ROLE:SECRET is needed, where ROLE is one of {', '.join(ROLES)}")
    hashed = HASHED.fullmatch(secret)
    if hashed is None and len(secret) < SHORTEST:
        raise ConfigError(f"{where} ({name}): a secret has at least {SHORTEST} characters")
    digest = bytes.fromhex(hashed[1]) if hashed else _digest(secret)
    return digest, Identity(name, cast("Role", role))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
