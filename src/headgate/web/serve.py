"""Serving the application by itself, with uvicorn, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.errors import ConfigError
from headgate.web.auth import is_loopback

SLOW_HEADERS = 20
"""Seconds in which a request's head must have arrived, and after which an idle connection is closed."""
LAST_ANSWERS = 5
"""Seconds that open requests have to end when the server stops; event streams are cut."""


class ImpatientProtocol(H11Protocol):
    """HTTP whose clients have so many seconds to send the head of a request: many connections that send theirs byte by
    byte would otherwise use up the server. Bodies have a deadline of their own, where they are read."""

    patience: float = SLOW_HEADERS
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._late is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._late = asyncio.get_running_loop().call_later(self.patience, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def check_host(host: str, *, protected: bool) -> None:
    """Without tokens only this machine may reach the server."""
    if not protected and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: without tokens anyone who reaches it could change everything; give tokens by --tokens "
            "FILE or HEADGATE_WEB_TOKENS, or serve on 127.0.0.1 behind a login of your own"
        )


def serve(application: ASGIApp, host: str, port: int, root_path: str, *, trust_proxy: bool) -> None:
    """Serve until told to stop. Raises ConfigError if the address cannot be had."""
    listening = _listen(host, port)
    config = uvicorn.Config(
        application,
        http=ImpatientProtocol,
        root_path=root_path.rstrip("/"),
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=trust_proxy,
        timeout_keep_alive=SLOW_HEADERS,
        timeout_graceful_shutdown=LAST_ANSWERS,
        limit_concurrency=4000,
    )
    signal.signal(signal.SIGTERM, _ignore)  # uvicorn raises it again when it has ended: that is no failure
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _listen(host: str, port: int) -> socket.socket:
    """Bound before the server starts, so that a port in use is an error of one line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: {error.strerror or error}; choose another port"
        ) from None
    listening.listen(1024)
    return listening
