"""Over TLS: with certificates that fit it works like any other server, with others it says what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headgate import App, ConfigError, EngineUnavailable
from headgate.engine.redis import servers
from headgate.job import NewJob
from tests.redis.conftest import OpenEngine, StartServer
from tests.redis.tls import CA, OTHER_CA, TlsProxy, chain, speaks_tls
from tests.support.redis_servers import RedisProcess, free_port

StartTls = Callable[..., int]


@pytest.fixture
def start_tls(start_server: StartServer) -> Iterator[StartTls]:
    """Starts a server that speaks TLS; returns its port. `ask`: it wants a certificate of its clients."""
    proxies: list[TlsProxy] = []

    def start(name: str = "server", *, ask: bool = False) -> int:
        server = start_server()
        if speaks_tls(server.program):
            return _turn_on(server, name, ask)
        proxies.append(TlsProxy(server, name, ask=ask))
        return proxies[-1].port

    yield start
    for proxy in proxies:
        proxy.stop()


def _turn_on(server: RedisProcess, name: str, ask: bool) -> int:
    port, (cert, key) = free_port(), chain(name)
    settings = {
        "tls-cert-file": cert, "tls-key-file": key, "tls-ca-cert-file": CA,
        "tls-auth-clients": "yes" if ask else "no", "tls-port": port,
    }  # fmt: skip
    with server.client() as client:
        client.execute_command("CONFIG", "SET", *(str(each) for pair in settings.items() for each in pair))
    return port


async def test_a_worker_works_over_tls(start_tls: StartTls) -> None:
    app = App(f"rediss://127.0.0.1:{start_tls()}?ca={CA}")

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app, app.worker(concurrency=2):
        handles = [await double.enqueue(number) for number in range(20)]
        results = await asyncio.gather(*(handle.result(timeout=10) for handle in handles))
        assert results == [2 * number for number in range(20)]
        assert (await app.audit()).ok


async def test_a_certificate_that_nobody_trusts_is_said(start_tls: StartTls, open_engine: OpenEngine) -> None:
    port = start_tls()
    for trusting in ("", f"?ca={OTHER_CA}"):
        with pytest.raises(ConfigError, match=r"certificate is not trusted; .*\?ca=file"):
            await open_engine(f"rediss://127.0.0.1:{port}{trusting}", check=False)


async def test_a_certificate_for_another_host_is_refused_unless_the_url_says_otherwise(
    start_tls: StartTls, open_engine: OpenEngine
) -> None:
    url = f"rediss://127.0.0.1:{start_tls('elsewhere')}?ca={CA}"
    with pytest.raises(ConfigError, match=r"is for another host; .* \?verify=ca .*IP address mismatch"):
        await open_engine(url, check=False)
    engine = await open_engine(url + "&verify=ca")
    await engine.enqueue([NewJob("j", "t")])


async def test_a_server_that_asks_for_a_certificate_is_shown_one(
    start_tls: StartTls, open_engine: OpenEngine
) -> None:
    url = f"rediss://127.0.0.1:{start_tls(ask=True)}?ca={CA}"
    with pytest.raises(EngineUnavailable, match=r"\?cert=file&key=file"):
        await open_engine(url, check=False)
    cert, key = chain("client")
    engine = await open_engine(f"{url}&cert={cert}&key={key}")
    await engine.enqueue([NewJob("j", "t")])


async def test_a_port_without_tls_is_said(
    start_server: StartServer, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a server takes the first words of TLS for a command that does not end, and waits."""
    monkeypatch.setitem(servers.client.__kwdefaults__ or {}, "timeout", 0.3)
    with pytest.raises(EngineUnavailable, match="is it a port for TLS"):
        await open_engine(f"rediss://127.0.0.1:{start_server().port}", check=False)


async def test_files_that_are_not_there_are_said(start_server: StartServer, open_engine: OpenEngine) -> None:
    port = start_server().port
    with pytest.raises(ConfigError, match=r"\?ca=/nowhere, cannot be read"):
        await open_engine(f"rediss://127.0.0.1:{port}?ca=/nowhere", check=False)
    with pytest.raises(ConfigError, match=r"/nowhere .*cannot be used"):
        await open_engine(f"rediss://127.0.0.1:{port}?ca={CA}&cert=/nowhere", check=False)


async def test_a_port_for_tls_is_said_where_the_url_knows_nothing_of_it(
    start_tls: StartTls, open_engine: OpenEngine
) -> None:
    with pytest.raises(EngineUnavailable, match="rediss://"):
        await open_engine(f"redis://127.0.0.1:{start_tls()}", check=False)
