"""A real sentinel on loopback that watches a master and its replica."""

from __future__ import annotations

import subprocess
from typing import Any

import redis

from tests.support.redis_leaks import check_all
from tests.support.redis_servers import ONCE, RedisProcess, free_port
from tests.support.waiting import eventually

PATIENCE = 30.0
PASSWORD = "of-the-master"


class Sentinels:
    """One sentinel decides alone, so that a dead master is replaced within a second or two."""

    def __init__(self, program: str, password: str | None = None) -> None:
        options = ("--requirepass", PASSWORD, "--masterauth", PASSWORD, "--repl-diskless-sync-delay", "0")
        self.master = RedisProcess(program, *options)
        self.replica = RedisProcess(program, *options, "--replicaof", "127.0.0.1", str(self.master.port))
        eventually(self._replica_is_in_step, "the replica")
        self.port = free_port()
        self.password = password
        self._process = self._start(program)
        eventually(lambda: self._ask("SENTINEL", "REPLICAS", "main"), "the sentinel to know the replica")

    def _start(self, program: str) -> subprocess.Popen[bytes]:
        file = self.master.directory / "sentinel.conf"
        lines = [
            f"port {self.port}", "bind 127.0.0.1", f"dir {self.master.directory}", "loglevel warning",
            f"sentinel monitor main 127.0.0.1 {self.master.port} 1", f"sentinel auth-pass main {PASSWORD}",
            "sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 5000",
            *([f"requirepass {self.password}"] if self.password else []),
        ]  # fmt: skip
        file.write_text("\n".join(lines))
        return subprocess.Popen(
            [program, str(file), "--sentinel"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    @property
    def url(self) -> str:
        """The first of the two addresses is dead: the other one is asked."""
        return f"redis+sentinel://:{PASSWORD}@127.0.0.1:{free_port()},127.0.0.1:{self.port}/main"

    def _ask(self, *command: str) -> object:
        try:
            with redis.Redis(port=self.port, password=self.password, socket_timeout=5, retry=ONCE) as client:
                return client.execute_command(*command)
        except redis.ConnectionError:
            return None

    def _replica_is_in_step(self) -> bool:
        with self.master.client(password=PASSWORD) as client:
            replication: Any = client.info("replication")
            return replication.get("slave0", {}).get("state") == "online"

    def replicate(self) -> None:
        """Wait until the replica has all that the master has acknowledged."""
        with self.master.client(password=PASSWORD) as client:
            client.set("mark", 1)
            assert client.wait(1, 10_000) == 1

    def check(self) -> None:
        """What is left must be in the catalogue."""
        check_all(self.master)
        check_all(self.replica)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self.replica.stop()
        self.master.stop()
