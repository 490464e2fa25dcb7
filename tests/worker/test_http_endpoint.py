"""The endpoint for probes: what it answers, and that no client keeps it from answering the next one."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from headgate.errors import ConfigError
from headgate.worker.process import http_endpoint as module
from headgate.worker.process.http_endpoint import HttpEndpoint, serve


async def later():
    return 503, "application/json", b'{"ready":false}'


def broken():
    raise RuntimeError("no page")


@pytest.fixture
def endpoint() -> Iterator[HttpEndpoint]:
    routes = {"/live": lambda: (200, "text/plain", "alive"), "/ready": later, "/broken": broken}
    endpoint = serve("127.0.0.1", 0, routes)
    yield endpoint
    endpoint.close()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str | None, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()
    finally:
        connection.close()


def say(port: int, text: bytes) -> bytes:
    """Send something, and read until the other side is done with it."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(text)
        heard = b""
        try:
            while more := client.recv(4096):
                heard += more
        except ConnectionResetError:
            pass
        return heard


def test_pages_are_answered_with_their_status_type_and_body(endpoint: HttpEndpoint):
    assert get(endpoint.port, "/live") == (200, "text/plain", b"alive")
    assert get(endpoint.port, "/live?verbose=1") == (200, "text/plain", b"alive")
    assert get(endpoint.port, "/ready") == (503, "application/json", b'{"ready":false}')
    assert get(endpoint.port, "/live", "HEAD") == (200, "text/plain", b"")


def test_what_is_no_page_is_refused(endpoint: HttpEndpoint, caplog: pytest.LogCaptureFixture):
    assert get(endpoint.port, "/")[::2] == (404, b"there is /broken, /live, /ready\n")
    assert get(endpoint.port, "/live", "POST")[0] == 405
    assert get(endpoint.port, "/broken")[0] == 500
    assert "the page /broken failed" in caplog.text
    assert say(endpoint.port, b"\x16\x03\x01\x02 garbage \xff\xfe\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert say(endpoint.port, b"GET /live HTTP/2\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_an_oversized_request_is_cut_off(endpoint: HttpEndpoint):
    request = b"GET /live HTTP/1.1\r\n" + b"X-Long: " + b"x" * 100_000
    assert say(endpoint.port, request)[:12] in (b"HTTP/1.1 431", b"")
    assert get(endpoint.port, "/live")[0] == 200


def test_a_slow_client_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, endpoint: HttpEndpoint):
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    assert say(endpoint.port, b"GET /live HTT") == b""
    assert get(endpoint.port, "/live")[0] == 200


def test_many_silent_clients_make_room_for_the_one_that_asks(endpoint: HttpEndpoint):
    silent = [
        socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(module.MOST_CONNECTIONS * 2)
    ]
    try:
        assert get(endpoint.port, "/live")[0] == 200
    finally:
        for client in silent:
            client.close()


def test_a_port_that_is_taken_is_refused_by_name(endpoint: HttpEndpoint):
    with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{endpoint.port}: .* another port"):
        serve("127.0.0.1", endpoint.port, {})
    with pytest.raises(ConfigError, match=r"cannot listen on no.such.host.invalid:0"):
        serve("no.such.host.invalid", 0, {})


def test_a_closed_endpoint_leaves_no_thread_and_no_socket():
    endpoint = serve("127.0.0.1", 0, {})
    endpoint.close()
    endpoint.close()
    assert "headgate-http" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint.port))
