"""Servers behind TLS: by themselves where they are built with it, else behind a proxy that speaks it for them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from pathlib import Path

from tests.support.redis_servers import RedisProcess, free_port

FILES = Path(__file__).parent / "certificates"
CA, OTHER_CA = FILES / "ca.pem", FILES / "other.pem"


def chain(name: str) -> tuple[str, str]:
    """A certificate that `CA` signed, and its key: `server`, `elsewhere` or `client`."""
    return str(FILES / f"{name}.pem"), str(FILES / f"{name}.key")


def speaks_tls(program: str) -> bool:
    """Whether a server program can do TLS by itself."""
    command = [program, "--port", "0", "--tls-port", str(free_port()), "--save", "", "--loglevel", "warning"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        return True
    return "Failed to configure TLS" in said.stdout + said.stderr


class TlsProxy:
    """Takes TLS off connections and passes them on to a server without it."""

    def __init__(self, server: RedisProcess, name: str, *, ask: bool) -> None:
        self.port = free_port()
        self._to = server.port
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=CA)
        self._context.load_cert_chain(*chain(name))
        if ask:
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._up.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        self._loop.set_exception_handler(lambda *_: None)  # handshakes that fail are what is tested
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._context)
        )
        self._up.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=5))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.wait(
                [
                    asyncio.create_task(_pass_on(reader, onward_writer)),
                    asyncio.create_task(_pass_on(onward_reader, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            onward_writer.close()
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.CancelledError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
