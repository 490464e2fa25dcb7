"""The stores of chaos runs: how each is started, reached through proxies, and mistreated."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.postgres_server import PostgresProcess
from tests.support.proxy import Proxy
from tests.support.redis_cluster import Cluster, free_cluster_port
from tests.support.redis_servers import RedisProcess, binary
from tests.support.waiting import eventually

Fault = Callable[[random.Random], float]
"""Does harm; returns how many seconds it lasts, after which `heal` ends it."""

HOLD = """
import sqlite3, sys, time
from tests.support.waiting import eventually
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
connection.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


class Place(ABC):
    """One store. `url` is for those who meet the faults, `direct` for the one who looks afterwards."""

    shared = True
    shifts_store = True
    """Whether the store has a clock of its own, so that a worker's may be wrong altogether."""
    exact = True
    """Whether an enqueue is decided on at once, so that no backlog grows beyond its bound."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proxies: list[Proxy] = []

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def direct(self) -> str: ...

    def faults(self) -> dict[str, Fault]:
        """By name."""
        if not self.proxies:
            return {}
        return {
            "connections reset": self._reset,
            "connections silent": self._silence,
            "connections slow": self._delay,
            "messages cut in half": self._cut,
        }

    def heal(self) -> None:
        """Everything works again."""
        for proxy in self.proxies:
            proxy.forward()

    def close(self) -> None:
        """For good."""
        for proxy in self.proxies:
            proxy.close()

    def _reset(self, dice: random.Random) -> float:
        dice.choice(self.proxies).reset(dice.choice([0.3, 1]), dice)
        return 0

    def _silence(self, dice: random.Random) -> float:
        dice.choice(self.proxies).silence(dice.choice([0.3, 1]), dice)
        return dice.choice([0.3, 1, 2, 4])

    def _delay(self, dice: random.Random) -> float:
        dice.choice(self.proxies).delay(dice.choice([0.02, 0.1, 0.5]), dice.choice([0.5, 1]), dice)
        return dice.uniform(0.5, 2)

    def _cut(self, dice: random.Random) -> float:
        dice.choice(self.proxies).halve(dice.choice([0.3, 1]), dice)
        return 0.3


class SqlitePlace(Place):
    """A file, and another process that keeps its only lock."""

    shifts_store = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = folder / "jobs.db"
        self.holders: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"sqlite:///{self.file}"

    @property
    def direct(self) -> str:
        return self.url

    def faults(self) -> dict[str, Fault]:
        return {"locks held": self._hold}

    def _hold(self, dice: random.Random) -> float:
        seconds = dice.choice([0.3, 1, 2, 4])
        command = [sys.executable, "-c", HOLD, str(self.file), str(seconds)]
        self.holders.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return seconds

    def heal(self) -> None:
        for holder in self.holders:
            holder.kill()
            holder.wait()
        self.holders.clear()

    def close(self) -> None:
        self.heal()


class PostgresPlace(Place):
    """A server whose commits survive its own death; the machine does not fail, so that nothing waits for the disk."""

    exact = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = PostgresProcess("fsync=off", "synchronous_commit=on")
        self.server.start()
        self.proxies = [Proxy(self.server.port)]
        self.backends: list[int] = []

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.proxies[0].port}/postgres"

    @property
    def direct(self) -> str:
        return self.server.dsn

    def faults(self) -> dict[str, Fault]:
        return {
            **super().faults(),
            "servers killed": self._kill,
            "servers restarted": self._restart,
            "servers frozen": self._freeze,
        }

    def _kill(self, dice: random.Random) -> float:
        self.backends = self._children()
        self.server.kill()
        return dice.choice([0.1, 1, 3])

    def _restart(self, dice: random.Random) -> float:
        """An immediate stop: no checkpoint, no session is waited for."""
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGQUIT)
        self.server.process.wait()
        return dice.choice([0.1, 1])

    def _freeze(self, dice: random.Random) -> float:
        self._signal(signal.SIGSTOP)
        return dice.choice([0.3, 1, 2, 4])

    def _children(self) -> list[int]:
        """The server's other processes."""
        assert self.server.process is not None
        command = ["ps", "-o", "pid=", "--ppid", str(self.server.process.pid)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def _signal(self, number: signal.Signals) -> None:
        assert self.server.process is not None
        for pid in [self.server.process.pid, *self._children()]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def heal(self) -> None:
        assert self.server.process is not None
        if self.server.process.poll() is not None:
            self._start()
        else:
            self._signal(signal.SIGCONT)
        super().heal()

    def _start(self) -> None:
        # The new server refuses to start beside processes of the killed one. Most see its death at once; one that
        # waits for the first message of a silent connection does not.
        for pid in self.backends:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.backends = []

        def started() -> bool:
            with suppress(RuntimeError):
                self.server.start()
                return True
            return False

        eventually(started, "the server to come back", 300, every=0.2)

    def close(self) -> None:
        self._signal(signal.SIGCONT)
        super().close()
        self.server.stop()


DURABLE = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


class ValkeyPlace(Place):
    """A server that writes each command to its file before it answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        program = binary("valkey")
        assert program is not None
        self.servers = self._start(program)
        self.down: list[RedisProcess] = []

    def _start(self, program: str) -> list[RedisProcess]:
        server = RedisProcess(program, *DURABLE)
        self.proxies = [Proxy(server.port)]
        return [server]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.proxies[0].port}/0"

    @property
    def direct(self) -> str:
        return self.servers[0].url

    def faults(self) -> dict[str, Fault]:
        return {**super().faults(), "servers killed": self._kill, "servers frozen": self._freeze}

    def _kill(self, dice: random.Random) -> float:
        server = dice.choice(self.servers)
        server.kill()
        return dice.choice([0.1, 1, 3])

    def _freeze(self, dice: random.Random) -> float:
        server = dice.choice(self.servers)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        return dice.choice([0.3, 1, 2, 4])

    def heal(self) -> None:
        for server in self.servers:
            if server.process is None:
                server.start()
            else:
                server.process.send_signal(signal.SIGCONT)
        super().heal()

    def close(self) -> None:
        super().close()
        for server in self.servers:
            server.stop()


class _ProxiedCluster(Cluster):
    """Nodes that tell clients the ports of proxies in front of them."""

    def __init__(self, program: str) -> None:
        self.proxies: list[Proxy] = []
        super().__init__(program, 0, *DURABLE, "--cluster-require-full-coverage", "no")

    def _node(self, program: str, options: tuple[str, ...]) -> RedisProcess:
        port = free_cluster_port()
        proxy = Proxy(port)
        self.proxies.append(proxy)
        announced = (
            "--cluster-announce-port",
            str(proxy.port),
            "--cluster-announce-bus-port",
            str(port + 10_000),
        )
        return RedisProcess(
            program,
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "60000",
            *announced,
            *options,
            port=port,
        )


class ClusterPlace(ValkeyPlace):
    """Three masters with partitions. A dead one takes its partitions with it until it is back."""

    shared = False

    def _start(self, program: str) -> list[RedisProcess]:
        self.cluster = _ProxiedCluster(program)
        self.proxies = self.cluster.proxies
        return self.cluster.nodes

    @property
    def url(self) -> str:
        nodes = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies)
        return f"redis+cluster://{nodes}?partitions=4"

    @property
    def direct(self) -> str:
        return self.url


PLACES: dict[str, type[Place]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
    "valkey": ValkeyPlace,
    "cluster": ClusterPlace,
}
