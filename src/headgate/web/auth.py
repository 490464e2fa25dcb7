"""From a request to who is asking.

Three ways in: a bearer token, the session of a browser that logged in with one, or a function of the user's that knows
the request's own login. Without any of them only this machine may ask, and then as admin: the connection comes from a
loopback address, no proxy has passed it on, and the request is addressed to this machine by a name of its own, so that
no page from elsewhere can reach in through a browser.
"""

from __future__ import annotations

import inspect
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import cast, get_args

from starlette.requests import HTTPConnection

from headgate.errors import ConfigError
from headgate.web.problems import Refusal
from headgate.web.roles import ROLES, Identity, Role
from headgate.web.sessions import COOKIE, CSRF_HEADER, Sessions
from headgate.web.tokens import Tokens

Answer = Identity | Role | tuple[str, Role] | None
AuthFunction = Callable[[HTTPConnection], Answer | Awaitable[Answer]]
Auth = Tokens | AuthFunction | None

LOCAL = Identity("local", "admin")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
BAD_LOGINS = 10
BAD_LOGINS_PER = 60.0
"""So many wrong secrets in so many seconds, then an address is refused for the rest of them."""
REMEMBERED_ADDRESSES = 10_000


class Authenticator:
    """Answers who is asking, or raises the refusal."""

    def __init__(self, auth: Auth) -> None:
        if auth is not None and not isinstance(auth, Tokens) and not callable(auth):
            raise ConfigError(f"auth={auth!r}: tokens, or a function from a request to a role, is needed")
        self._auth = auth
        self.sessions = Sessions()
        self._bad = BadLogins()

    @property
    def by_token(self) -> bool:
        """Whether people log in here, with a token."""
        return isinstance(self._auth, Tokens)

    async def identify(self, request: HTTPConnection) -> Identity:
        """Who is asking; raises Refusal."""
        if isinstance(self._auth, Tokens):
            identity = self._by_token(request, self._auth)
        elif self._auth is not None:
            identity = await _by_function(request, self._auth)
            self.must_be_of_this_site(request)
        else:
            identity = _local(request)
            self.must_be_of_this_site(request)
        return identity

    def must_be_of_this_site(self, request: HTTPConnection) -> None:
        """A browser says which site a change comes from; a program says nothing."""
        if not _changes(request):
            return
        origin = request.headers.get("origin")
        elsewhere = origin is not None and origin.partition("://")[2] != request.headers.get("host")
        if elsewhere or request.headers.get("sec-fetch-site", "none") == "cross-site":
            raise Refusal(
                "forbidden", f"a change that a browser sends from {origin or 'another site'} is refused here"
            )

    def login(self, request: HTTPConnection, secret: str) -> str:
        """A session for the holder of a secret: the cookie."""
        assert isinstance(self._auth, Tokens)
        return self.sessions.begin(self._check(request, secret, self._auth))

    def _by_token(self, request: HTTPConnection, tokens: Tokens) -> Identity:
        header = request.headers.get("authorization", "")
        if header:
            scheme, _, secret = header.partition(" ")
            if scheme.lower() != "bearer" or not secret:
                raise _unknown("the Authorization header must say: Bearer SECRET")
            return self._check(request, secret.strip(), tokens)
        cookie = request.cookies.get(COOKIE)
        if cookie is None:
            raise _unknown("a token is needed: Authorization: Bearer SECRET")
        identity = self.sessions.identity(cookie)
        if identity is None:
            raise _unknown("the session has ended; log in again")
        if _changes(request) and not self.sessions.csrf_fits(cookie, request.headers.get(CSRF_HEADER, "")):
            raise Refusal("forbidden", f"a change from a browser needs the page's own {CSRF_HEADER} header")
        return identity

    def _check(self, request: HTTPConnection, secret: str, tokens: Tokens) -> Identity:
        address = request.client.host if request.client else ""
        self._bad.refuse_if_too_many(address)
        identity = tokens.identity(secret)
        if identity is None:
            self._bad.note(address)
            raise _unknown("no token has this secret")
        return identity


class BadLogins:
    """Counts wrong secrets per address, so that none can be tried out."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, list[float]] = OrderedDict()

    def note(self, address: str) -> None:
        """A wrong secret came from there."""
        self._seen.setdefault(address, []).append(time.monotonic())
        self._seen.move_to_end(address)
        while len(self._seen) > REMEMBERED_ADDRESSES:
            self._seen.popitem(last=False)

    def refuse_if_too_many(self, address: str) -> None:
        """Raise if too many came lately: also for a right secret, or the answer would tell which one is right."""
        times = self._seen.get(address)
        if not times:
            return
        now = time.monotonic()
        times[:] = [at for at in times if now - at < BAD_LOGINS_PER][-BAD_LOGINS:]
        if len(times) >= BAD_LOGINS:
            wait = str(int(BAD_LOGINS_PER - (now - times[0])) + 1)
            raise Refusal("too-many", f"too many wrong secrets; try again in {wait} s", {"Retry-After": wait})


async def _by_function(request: HTTPConnection, function: AuthFunction) -> Identity:
    answer = function(request)
    if inspect.isawaitable(answer):
        answer = await answer
    match answer:
        case None:
            raise _unknown("the application knows no login of this request")
        case Identity():
            return answer
        case str():
            return Identity(answer, _role(answer))
        case (str() as name, str() as role):
            return Identity(name, _role(role))
        case _:
            raise ConfigError(f"auth= returned {answer!r}: a role, (name, role) or None is needed")


def _role(given: str) -> Role:
    if given not in get_args(Role):
        raise ConfigError(f"auth= returned the role {given!r}; there are: {', '.join(ROLES)}")
    return cast("Role", given)


def _local(request: HTTPConnection) -> Identity:
    passed_on = any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip"))
    if passed_on or request.client is None or not is_loopback(request.client.host):
        raise _unknown(
            "without tokens only this machine may ask; start with HEADGATE_WEB_TOKENS, or pass auth="
        )
    if not is_loopback(_name_of(request.headers.get("host", ""))):
        raise _unknown("without tokens a request must be addressed to localhost or a loopback address")
    return LOCAL


def _changes(request: HTTPConnection) -> bool:
    return request.scope.get("method", "GET") not in SAFE


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, for no one else to reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _unknown(detail: str) -> Refusal:
    return Refusal("unauthenticated", detail, {"WWW-Authenticate": 'Bearer realm="headgate"'})
