"""Where the processes of one command answer over HTTP, and how a supervisor asks its children.

A process without a supervisor listens where it was told to. Children cannot share one port with each other: each gets
a socket from its supervisor that listens on the loopback address, answers all pages there, and the supervisor, which
listens where it was told to, asks them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator, Iterable, Mapping

from headgate.worker.process.http_endpoint import HttpEndpoint, Route, serve

Address = tuple[str, int]
Pages = Mapping[str, Route]


@contextlib.contextmanager
def endpoints(wanted: Iterable[tuple[Address | None, Pages]], given: int | None = None) -> Generator[None]:
    """Answer pages at their addresses, or all of them on the `given` open socket; those without an address nowhere."""
    chosen = [(address, pages) for address, pages in wanted if address is not None]
    if given is not None:
        os.set_inheritable(given, False)
        every = {path: page for _, pages in chosen for path, page in pages.items()}
        opened = [HttpEndpoint(socket.socket(fileno=given), every)]
    else:
        opened = [serve(*address, pages) for address, pages in _together(chosen).items()]
    try:
        yield
    finally:
        for endpoint in opened:
            endpoint.close()


def _together(chosen: Iterable[tuple[Address, Pages]]) -> dict[Address, dict[str, Route]]:
    """Pages that are to be found at the same address share an endpoint."""
    together: dict[Address, dict[str, Route]] = {}
    for address, pages in chosen:
        together.setdefault(address, {}).update(pages)
    return together


async def ask(port: int, path: str, seconds: float) -> tuple[int, bytes]:
    """The status and body of a child's page; TimeoutError if it is silent, another OSError if it is gone."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode("latin-1"))
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    words = head.split(b" ", 2)
    if len(words) < 3:
        raise ConnectionResetError("it ended while it answered")
    return int(words[1]), body
