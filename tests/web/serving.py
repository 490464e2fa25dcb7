"""The application of an app on a real port, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn

from headgate import App
from headgate.web import asgi
from tests.support.waiting import PATIENCE


@contextmanager
def serving(app: App, http: type[asyncio.Protocol] | str = "auto") -> Generator[int]:
    """A server in a thread of this process; its port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = uvicorn.Config(
        asgi(app), http=http, log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
