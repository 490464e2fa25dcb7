"""How often a busy worker talks to the server, by the server's own count."""

from abc import ABC, abstractmethod
from pathlib import Path
from urllib.parse import urlsplit

from bench.contender import Jobs
from bench.figures import Figures
from bench.runners.headgate.contender import Headgate
from bench.tally import Tally

SLOW_MICROSECONDS = 1_000
REPORTED = 10_000
SCRIPTS = ("cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall")


class Counter(ABC):
    """The counters of the server at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    async def begin(self) -> None:
        """From now on."""

    @abstractmethod
    async def per_job(self, jobs: int) -> Figures:
        """`round_trips` per job, and `details` in words."""


class RedisCounter(Counter):
    """Reads of sockets are round trips; scripts and the commands in them are counted apart, and how long they took."""

    async def begin(self) -> None:
        import redis.asyncio

        self._client = redis.asyncio.Redis.from_url(self.url, decode_responses=True)
        await self._client.config_set("slowlog-log-slower-than", SLOW_MICROSECONDS)
        await self._client.config_set("slowlog-max-len", REPORTED)
        await self._client.slowlog_reset()
        await self._client.config_resetstat()

    async def per_job(self, jobs: int) -> Figures:
        reads = (await self._client.info("stats"))["total_reads_processed"]
        commands = await self._client.info("commandstats")
        slow = [entry["duration"] for entry in await self._client.slowlog_get(REPORTED)]
        called = [commands[name] for name in SCRIPTS if name in commands]
        scripts = sum(each["calls"] for each in called)
        mean = sum(each["usec"] for each in called) / scripts / 1000
        inside = sum(each["calls"] for each in commands.values()) - scripts
        slowest = max(slow, default=0) / 1000
        return {
            "round_trips": reads / jobs,
            "scripts": scripts / jobs,
            "commands": inside / jobs,
            "script_ms": mean,
            "slow_scripts": len(slow),
            "slowest_ms": slowest,
            "details": f"{scripts} scripts of {mean:.2f} ms ({len(slow)} over 1 ms, one {slowest:.1f} ms) "
            f"with {inside / jobs:.1f} commands per job",
        }


class PostgresCounter(Counter):
    """Every statement that a client sends is a round trip; those inside functions are none."""

    async def begin(self) -> None:
        import asyncpg

        self._connection = await asyncpg.connect(self.url)
        await self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await self._connection.execute("SELECT pg_stat_statements_reset()")

    async def per_job(self, jobs: int) -> Figures:
        rows = await self._connection.fetch(
            "SELECT query, calls, mean_exec_time FROM pg_stat_statements"
            " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND query NOT LIKE '%pg_stat_statements%' ORDER BY calls DESC"
        )
        calls = sum(row["calls"] for row in rows)
        most = rows[0]
        details = (
            f"{calls} statements, {most['calls']} of them of {most['mean_exec_time']:.2f} ms: "
            f"{' '.join(most['query'].split())[:40]}…"
        )
        return {"round_trips": calls / jobs, "statements": calls, "details": details}


COUNTERS = {"redis": RedisCounter, "postgresql": PostgresCounter}


async def traffic(scratch: Path, url: str, jobs: int, concurrency: int) -> Figures:
    """Count from the start of a worker on a full queue to its end."""
    tally = Tally(jobs)
    queue = Headgate(url, Jobs(lambda n: tally.hit()), concurrency)
    counter = COUNTERS[urlsplit(url).scheme](url)
    async with queue.opened():
        await queue.enqueue_many(jobs)
        await counter.begin()
        async with queue.working():
            await tally.done.wait()
        return await counter.per_job(jobs)
