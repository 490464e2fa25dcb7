"""Which server a partition lives on: the one of the URL, the master that sentinels name, or the owner of its slot."""

from __future__ import annotations

import asyncio
import binascii
import logging
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headgate.engine.redis.errors import client_error
from headgate.engine.redis.tls import guess, untrusted
from headgate.engine.redis.url import Address, Target
from headgate.engine.redis.wire import probes
from headgate.errors import ConfigError, EngineUnavailable, HeadgateError

log = logging.getLogger("headgate.engine")

SLOTS = 16384
PATIENCE = 10.0
"""Seconds for an answer to what is asked rarely."""
ONE_OF_MANY = 2.0
"""Seconds for one sentinel, or one node of a cluster: the next may be alive."""

ONCE = Retry(NoBackoff(), 0)

_TAKEN_OVER = "%s: %s has taken over from %s; what had not reached it by then is gone"

Client = Any
"""A redis.Redis. Its types are partly unknown; here it is used for a handful of commands."""


def slot_of(tag: str) -> int:
    """The cluster slot of the keys that begin with a partition's tag: CRC16 of what stands between the braces."""
    return binascii.crc_hqx(tag[1 : tag.index("}")].encode(), 0) % SLOTS


def client(target: Target, address: Address | None, *, timeout: float = PATIENCE) -> Client:
    """A blocking client, for what is rare: opening, asking around. It does not try again: callers do."""
    common: dict[str, Any] = {
        "db": target.db, "username": target.user, "password": target.password, "socket_timeout": timeout,
        "socket_connect_timeout": timeout, "socket_keepalive": True, "socket_keepalive_options": probes(),
        "protocol": 2, "retry": ONCE,
    }  # fmt: skip
    if address is None:
        for option in ("socket_connect_timeout", "socket_keepalive", "socket_keepalive_options"):
            del common[option]
        return redis.Redis(unix_socket_path=target.path, **common)
    tls: dict[str, Any] = target.tls.options() if target.tls else {}
    return redis.Redis(host=address[0], port=address[1], **common, **tls)


def told(server: Address) -> str:
    """An address for people."""
    return f"{server[0]}:{server[1]}"


class Servers:
    """The server of the URL, whatever the slot. None stands for the socket of a unix:// URL."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.checked: set[Address | None] = set()
        """Those whose version, kind and settings have been looked at."""

    def address(self, slot: int) -> Address | None:
        """Where the slot is. May ask around: not for the event loop's thread."""
        return self.target.addresses[0] if self.target.addresses else None

    def known(self, slot: int) -> Address | bool | None:
        """The same without asking; False when it is not known."""
        return self.address(slot)

    def moved(self, slot: int, address: Address) -> None:
        """A server said which one has the slot: only in a cluster."""
        return

    def doubt(self, slot: int) -> None:
        """The server of a slot could not be reached, or is a replica: ask again next time."""
        return


class Sentinels(Servers):
    """The master that the sentinels name, and a word when it is another one than before."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._master: Address | None = None
        self._before: Address | None = None

    def address(self, slot: int) -> Address | None:
        if self._master is None:
            self._master = master = self._ask()
            if self._before not in (None, master):
                log.warning(_TAKEN_OVER, self.target.shown, told(master), told(self._before))
            self._before = master
        return self._master

    def known(self, slot: int) -> Address | bool | None:
        return self._master or False

    def doubt(self, slot: int) -> None:
        self._master = None

    def _ask(self) -> Address:
        errors: list[str] = []
        for sentinel in self.target.addresses:
            try:
                answer = self._ask_one(sentinel)
            except redis.RedisError as error:
                errors.append(f"{told(sentinel)}: {self._remedy(error)}")
                continue
            if answer is not None:
                return answer
            errors.append(f"{told(sentinel)} does not know it")
        raise EngineUnavailable(f"no sentinel names the master {self.target.master!r}: {'; '.join(errors)}")

    def _remedy(self, error: redis.RedisError) -> str:
        if isinstance(error, redis.AuthenticationError):
            return f"{error} Is ?sentinel_password= the password of the sentinels?"
        if "unknown command" in str(error):
            return "it is no sentinel"
        return untrusted(error) or guess(error, self.target.tls)

    def _ask_one(self, sentinel: Address) -> Address | None:
        """With the password that the URL gives for sentinels, else with the master's, else with none."""
        given = self.target.sentinel_user, self.target.sentinel_password
        first = given if given[1] is not None else (self.target.user, self.target.password)
        try:
            return self._ask_as(sentinel, *first)
        except (redis.AuthenticationError, redis.ResponseError) as error:
            if given[1] is not None or first[1] is None or "unknown command" in str(error):
                raise
            return self._ask_as(sentinel, None, None)

    def _ask_as(self, sentinel: Address, user: str | None, password: str | None) -> Address | None:
        asked = client(
            self.target._replace(db=0, user=user, password=password), sentinel, timeout=ONE_OF_MANY
        )
        try:
            answer = asked.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.target.master)
        finally:
            asked.close()
        return answer and (answer[0].decode(), int(answer[1]))


class ClusterNodes(Servers):
    """The owners of slots, as the nodes tell them.

    Event loops read and doubt them while threads ask the nodes: a table that is in use is replaced, never changed.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._owners: dict[int, Address] = {}
        self._before: dict[int, Address] = {}
        self._nodes: dict[Address, None] = dict.fromkeys(target.addresses)

    def known(self, slot: int) -> Address | bool | None:
        return self._owners.get(slot, False)

    def moved(self, slot: int, address: Address) -> None:
        self._owners = {**self._owners, slot: address}
        self._before[slot] = address
        self._nodes[address] = None

    def doubt(self, slot: int) -> None:
        """All slots of that server: those of others are where they were."""
        server = self._owners.get(slot)
        self._owners = {one: owner for one, owner in self._owners.items() if owner != server}

    def address(self, slot: int) -> Address | None:
        owner = self._owners.get(slot) or self._ask().get(slot)
        if owner is None:
            raise EngineUnavailable(f"no node of the cluster {self.target.shown} serves slot {slot}")
        if (before := self._before.get(slot, owner)) != owner:
            self._say(before, owner)
        self._before[slot] = owner
        return owner

    def _say(self, before: Address, owner: Address) -> None:
        """A node that has other slots still has only given this one away. Once for all slots that went with it."""
        if before not in self._owners.values() and before in self._nodes:
            log.warning(_TAKEN_OVER, self.target.shown, told(owner), told(before))
            del self._nodes[before]

    def _ask(self) -> dict[int, Address]:
        """The owners of all slots. A node that does not answer is asked last from now on."""
        errors: list[str] = []
        for node in dict.fromkeys((*self._nodes, *self.target.addresses)):
            asked = client(self.target, node, timeout=ONE_OF_MANY)
            try:
                return self._learn(asked.execute_command("CLUSTER", "SLOTS"), node)
            except (redis.AuthenticationError, redis.ResponseError) as error:
                raise self._refusal(error, node) from None
            except redis.RedisError as error:
                errors.append(f"{told(node)}: {untrusted(error) or guess(error, self.target.tls)}")
                if self._nodes.pop(node, ()) is None:
                    self._nodes[node] = None
            finally:
                asked.close()
        raise EngineUnavailable(f"no node of the cluster can be reached: {'; '.join(errors)}")

    @staticmethod
    def _refusal(error: redis.RedisError, node: Address) -> HeadgateError:
        if "cluster support disabled" in str(error):
            return ConfigError(f"{told(node)} is no cluster; write redis:// instead of redis+cluster://")
        return client_error(error, told(node))

    def _learn(self, answer: Any, asked: Address) -> dict[int, Address]:
        owners = dict(self._owners)
        for first, last, (host, port, *_), *_replicas in answer:
            owner = (host.decode() if host else asked[0], int(port))
            self._nodes[owner] = None
            owners.update(dict.fromkeys(range(first, last + 1), owner))
        self._owners = owners
        return owners


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
