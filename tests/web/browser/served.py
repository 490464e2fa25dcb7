"""The dashboard of an app on a port of this machine, on the event loop of the test, with a worker beside it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import uvicorn

from headgate import App
from headgate.web import asgi


class Served:
    """An app that is served: `url`, and `stop()` and `start()` for a server that goes away and comes back."""

    def __init__(self, app: App, **options: Any) -> None:
        self._application = asgi(app, **options)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen and answer."""
        config = uvicorn.Config(
            self._application, port=self._port, log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve())
        while not self._server.started:
            assert not self._serving.done(), "the server did not start"
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Cut every connection."""
        self._server.should_exit = True
        await self._serving


class _Server(uvicorn.Server):
    """Leaves signals to the tests."""

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


@asynccontextmanager
async def served(app: App, *, concurrency: int = 0, **options: Any) -> AsyncGenerator[Served]:
    """Serve an app; with `concurrency` a worker runs its jobs."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app)
        if concurrency:
            await stack.enter_async_context(app.worker(concurrency=concurrency, name="web-1", grace=0))
        server = Served(app, **options)
        await server.start()
        stack.push_async_callback(server.stop)
        yield server
