"""A real cluster on loopback: masters, replicas, and slots that move."""

from __future__ import annotations

import random
import socket
import time
from typing import Any

import redis

from headgate.engine.redis.servers import SLOTS, slot_of
from tests.support.redis_leaks import check_all
from tests.support.redis_servers import RedisProcess
from tests.support.waiting import eventually

PATIENCE = 30.0


def free_cluster_port() -> int:
    """A port whose bus port (10,000 above it) is free, too."""
    while True:
        port = random.randint(20_000, 30_000)
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
        return port


class Cluster:
    """Three masters with as many replicas as asked for."""

    def __init__(self, program: str, replicas: int = 0, *options: str) -> None:
        self.nodes = [self._node(program, options) for _ in range(3 + replicas)]
        self.masters = self.nodes[:3]
        self.replicas = self.nodes[3:]
        for number, node in enumerate(self.masters):
            first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3
            _ask(node, "CLUSTER", "ADDSLOTS", *range(first, last))
            _ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            _ask(node, "CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        eventually(
            lambda: all(self._known(n) == len(self.nodes) for n in self.nodes), "all nodes to know each other"
        )
        for master, replica in zip(self.masters, self.replicas, strict=False):
            _ask(replica, "CLUSTER", "REPLICATE", self.id(master))
        self.wait()

    def _node(self, program: str, options: tuple[str, ...]) -> RedisProcess:
        return RedisProcess(
            program, "--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--save", "",
            "--repl-diskless-sync-delay", "0", *options,
            port=free_cluster_port(),
        )  # fmt: skip

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def wait(self) -> None:
        """Until every slot is served, and replicas are in step."""
        eventually(
            lambda: all("cluster_state:ok" in _info(node) for node in self.nodes if node.process),
            "the cluster",
        )
        for replica in self.replicas:
            if replica.process:
                eventually(
                    lambda r=replica: "master_link_status:up" in str(_text(_ask(r, "INFO", "replication"))),
                    "a replica",
                )

    def _known(self, node: RedisProcess) -> int:
        return int(
            next(line for line in _info(node).splitlines() if line.startswith("cluster_known_nodes")).split(
                ":"
            )[1]
        )

    def id(self, node: RedisProcess) -> str:
        return _text(_ask(node, "CLUSTER", "MYID"))

    def owner(self, slot: int) -> RedisProcess:
        """Which master has a slot."""
        for first, last, master, *_ in _ask(self.masters[0], "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == master[1])
        raise AssertionError(f"slot {slot} has no owner")

    def move(self, slot: int, target: RedisProcess, pause: float = 0.0) -> None:
        """Move a slot key by key, as tools do; `pause` is how long each key takes."""
        source = self.owner(slot)
        here, there = self.id(source), self.id(target)
        _ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", here)
        _ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", there)
        while keys := _ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 10):
            _ask(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            time.sleep(pause)
        for node in [target, source, *(n for n in self.masters if n not in (source, target))]:
            _ask(node, "CLUSTER", "SETSLOT", slot, "NODE", there)

    def replicate(self) -> None:
        """Wait until every replica has all that its master has acknowledged."""
        for master in self.masters[: len(self.replicas)]:
            # On a connection of its own WAIT counts only what that wrote: a key in a slot of this master.
            first = next(f for f, _, owner, *_ in _ask(master, "CLUSTER", "SLOTS") if owner[1] == master.port)
            key = next(f"{{{n}}}" for n in range(10**6) if slot_of(f"{{{n}}}") == first)
            with master.client() as client:
                client.set(key, 1)
                assert client.wait(1, 10_000) == 1

    def check(self) -> None:
        """What is left must be in the catalogue, on every master."""
        for node in self.nodes:
            if node.process and "role:master" in _text(_ask(node, "INFO", "replication")):
                check_all(node)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def _ask(node: RedisProcess, *command: Any) -> Any:
    with redis.Redis(port=node.port, socket_timeout=20) as client:
        connection = client.connection_pool.get_connection()
        connection.send_command(*command)
        answer = connection.read_response()
        connection.disconnect()
        return answer


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _info(node: RedisProcess) -> str:
    return _text(_ask(node, "CLUSTER", "INFO"))
