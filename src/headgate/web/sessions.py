"""Sessions of browsers: a cookie that says who logged in, signed with a key that lives as long as the process.

The cookie holds a name, a role and an end, never a token. Scripts cannot read it, other sites cannot make the browser
send it (`SameSite=Strict`), and what changes something needs the session's own CSRF token besides.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time

import msgspec

from headgate.web.roles import Identity

COOKIE = "headgate_session"
CSRF_HEADER = "x-headgate-csrf"
LASTS = 12 * 3600
"""Seconds after which a browser has to log in again."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie says."""

    name: str
    role: str
    ends: float
    salt: str


class Sessions:
    """Makes and reads cookies. Another process, or this one after a restart, knows none of them."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def begin(self, identity: Identity) -> str:
        """The cookie of a new session."""
        session = Session(identity.name, identity.role, time.time() + LASTS, secrets.token_urlsafe(9))
        body = base64.urlsafe_b64encode(msgspec.json.encode(session)).decode()
        return f"{body}.{self._sign('session', body)}"

    def identity(self, cookie: str) -> Identity | None:
        """Who a cookie speaks for; None if it is not ours, or too old."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(
            self._sign("session", body).encode(), signature.encode("utf-8", "replace")
        ):
            return None
        session = msgspec.json.decode(base64.urlsafe_b64decode(body), type=Session)
        if session.ends < time.time():
            return None
        return msgspec.convert({"name": session.name, "role": session.role}, Identity)

    def csrf(self, cookie: str) -> str:
        """The token that a page of this session sends along with every change."""
        return self._sign("csrf", cookie)

    def csrf_fits(self, cookie: str, given: str) -> bool:
        """Whether a change comes from a page of this session."""
        return hmac.compare_digest(self.csrf(cookie).encode(), given.encode("utf-8", "replace"))

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()
