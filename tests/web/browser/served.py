"""The dashboard of an app on a port of this machine, in a thread with a worker beside it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

import uvicorn

from headgate import App
from headgate.web import asgi
from headgate.web.auth import Auth

T = TypeVar("T")
PATIENCE = 30


class Served:
    """`with Served(make) as served:`; `make` builds the app on the thread's own event loop."""

    def __init__(
        self, make: Callable[[], App], *, auth: Auth = None, concurrency: int = 60, **options: Any
    ) -> None:
        self._make = make
        self._auth = auth
        self._options = options
        self._concurrency = concurrency
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failed: BaseException | None = None
        self.app: App
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the server did not start"
        if self._failed:
            raise self._failed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(PATIENCE)
        self._listening.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something where the app lives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.app = self._make()
        config = uvicorn.Config(
            asgi(self.app, auth=self._auth, **self._options),
            log_config=None,
            timeout_graceful_shutdown=1,
            lifespan="off",
        )
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        async with self.app:
            serving = asyncio.create_task(server.serve(sockets=[self._listening]))
            try:
                await self._work()
            finally:
                server.should_exit = True
                await serving

    async def _work(self) -> None:
        if not self._concurrency:
            self._ready.set()
            await self._stop.wait()
            return
        async with self.app.worker(concurrency=self._concurrency, name="web-1", grace=0):
            self._ready.set()
            await self._stop.wait()
