"""Which server a partition lives on: the one of the URL, the master that sentinels name, or the owner of its slot."""

from __future__ import annotations

import asyncio
import binascii
from typing import Any

import redis
from redis.sentinel import MasterNotFoundError, Sentinel

from headgate.engine.redis.refusals import server_error
from headgate.engine.redis.url import Address, Target
from headgate.errors import EngineUnavailable

SLOTS = 16384

Client = Any
"""A redis.Redis. Its types are partly unknown; here it is used for a handful of commands."""


def slot_of(tag: str) -> int:
    """The cluster slot of the keys that begin with a partition's tag: CRC16 of what stands between the braces."""
    return binascii.crc_hqx(tag[1 : tag.index("}")].encode(), 0) % SLOTS


def client(target: Target, address: Address | None) -> Client:
    """A blocking client, for what is rare: opening, listening, asking around."""
    common: dict[str, Any] = {
        "db": target.db, "username": target.user, "password": target.password, "socket_timeout": None,
        "socket_connect_timeout": 10, "socket_keepalive": True, "protocol": 2,
    }  # fmt: skip
    if address is None:
        del common["socket_connect_timeout"], common["socket_keepalive"]
        return redis.Redis(unix_socket_path=target.path, **common)
    tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": target.ca} if target.tls else {}
    return redis.Redis(host=address[0], port=address[1], **common, **tls)


class Servers:
    """The server of the URL, whatever the slot. None stands for the socket of a unix:// URL."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def address(self, slot: int) -> Address | None:
        """Where the slot is. May ask around: not for the event loop's thread."""
        return self.target.addresses[0] if self.target.addresses else None

    def known(self, slot: int) -> Address | bool | None:
        """The same without asking; False when it is not known."""
        return self.address(slot)

    def moved(self, slot: int, address: Address) -> None:
        """A server said who has the slot: only in a cluster."""
        return

    def doubt(self) -> None:
        """A server could not be reached, or is a replica: ask again next time, where there is somebody to ask."""
        return


class Sentinels(Servers):
    """The master that the sentinels name. Their own password is the master's."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._master: Address | None = None
        self._sentinel: Any = Sentinel(
            list(target.addresses),
            socket_timeout=5,
            sentinel_kwargs={"password": target.password, "protocol": 2},
        )

    def address(self, slot: int) -> Address | None:
        if self._master is None:
            try:
                host, port = self._sentinel.discover_master(self.target.master)
            except (MasterNotFoundError, redis.RedisError) as error:
                raise EngineUnavailable(
                    f"no sentinel of {self.target.shown} knows a master {self.target.master!r}: {error}"
                ) from None
            self._master = (host if isinstance(host, str) else host.decode(), int(port))
        return self._master

    def known(self, slot: int) -> Address | bool | None:
        return self._master or False

    def doubt(self) -> None:
        self._master = None


class ClusterNodes(Servers):
    """The owners of slots, as the nodes tell them."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._owners: dict[int, Address] = {}
        self._nodes: dict[Address, None] = dict.fromkeys(target.addresses)

    def known(self, slot: int) -> Address | bool | None:
        return self._owners.get(slot, False)

    def moved(self, slot: int, address: Address) -> None:
        self._owners[slot] = address
        self._nodes[address] = None

    def doubt(self) -> None:
        self._owners.clear()

    def address(self, slot: int) -> Address | None:
        if slot not in self._owners:
            self._ask()
        if slot not in self._owners:
            raise EngineUnavailable(f"no node of the cluster {self.target.shown} serves slot {slot}")
        return self._owners[slot]

    def _ask(self) -> None:
        errors: list[str] = []
        for node in list(self._nodes):
            asked = client(self.target, node)
            try:
                self._learn(asked.execute_command("CLUSTER", "SLOTS"), node)
                return
            except redis.ResponseError as error:
                raise server_error(str(error), f"{node[0]}:{node[1]}") from None
            except redis.RedisError as error:
                errors.append(f"{node[0]}:{node[1]}: {error}")
            finally:
                asked.close()
        raise EngineUnavailable(f"no node of the cluster can be reached: {'; '.join(errors)}")

    def _learn(self, answer: Any, asked: Address) -> None:
        for first, last, (host, port, *_), *_replicas in answer:
            owner = (host.decode() if host else asked[0], int(port))
            self._nodes[owner] = None
            for slot in range(first, last + 1):
                self._owners[slot] = owner


def servers_of(target: Target) -> Servers:
    """What fits the URL."""
    match target.mode:
        case "sentinel":
            return Sentinels(target)
        case "cluster":
            return ClusterNodes(target)
        case _:
            return Servers(target)


async def find(servers: Servers, slot: int) -> Address | None:
    """The server of a slot, from the event loop."""
    known = servers.known(slot)
    if known is False:
        return await asyncio.to_thread(servers.address, slot)
    assert known is not True
    return known
