"""A real PostgreSQL server for the tests: started once per session, stopped at its end.

Its programs come from where `postgres_binaries` finds them. Every test gets a schema of its own from a small stock that
is emptied and used again.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.postgres_binaries import (
    NOBODY,
    as_nobody,
    binaries,
    fingerprint,
    installations,
    reachable,
    run_folder,
    temporary_root,
    version,
)
from tests.support.waiting import eventually


def shown() -> str:
    """The version that all tests run on, and where it is."""
    found = binaries()
    return "none here" if found is None else f"{version(found)} from {found}"


def available() -> bool:
    """Whether PostgreSQL can be tested here."""
    return importlib.util.find_spec("asyncpg") is not None and binaries() is not None


class PostgresProcess:
    """One server with its own data. `hba` are lines that come before the one that trusts everybody."""

    def __init__(
        self,
        *settings: str,
        hba: Sequence[str] = (),
        bin: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.environment = {**os.environ, **(environment or {})}
        found = bin or binaries()
        assert found is not None
        self.bin = reachable(found)
        self.settings = settings
        self.folder = _folder()
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._make_data()
        file = self.data / "pg_hba.conf"
        file.write_text("\n".join([*hba, file.read_text()]))

    def _make_data(self) -> None:
        subprocess.run(as_nobody(["cp", "-a", str(_empty_data(self.bin)), str(self.data)]), check=True)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, schema: str = "headgate", user: str = "postgres", database: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?schema={schema}"

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start and wait until it answers."""
        options = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",  # a path may be too long for one
        ]
        options += ["max_connections=200", "shared_buffers=64MB", *self.settings]
        command = [str(self.bin / "postgres"), "-D", str(self.data)]
        for option in options:
            command += ["-c", option]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                as_nobody(command), stdout=log, stderr=log, cwd="/", env=self.environment
            )
        process = self.process
        try:
            eventually(lambda: process.poll() is not None or self.answers(), "the server to answer")
        except AssertionError:
            raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
        if process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """One statement in a transaction of its own."""
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)  # pyright: ignore[reportArgumentType, reportCallIssue]
            return cursor.fetchall() if cursor.description else []

    def waiting(self) -> int:
        """How many statements wait for a lock."""
        return self.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0]

    def kill(self) -> None:
        """As a power cut would: the postmaster and, through it, every backend at once."""
        assert self.process is not None
        pid = (self.data / "postmaster.pid").read_text().split()[0]
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", pid], capture_output=True, text=True, check=False
        )
        for each in [pid, *children.stdout.split()]:
            try:
                os.kill(int(each), signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def kill_postmaster(self) -> None:
        """The postmaster alone: backends end when they notice, and until then go on with what they do. A new server
        cannot start beside them."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """As an administrator would, without asking."""
        self.halt()
        self.start()

    def halt(self) -> None:
        """Shut down; connections are cut."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def stop(self) -> None:
        """For good."""
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, program: str, *arguments: str) -> None:
        """One of the server's programs; those of a newer version serve an older one, too, if it came without."""
        folders = [self.bin, *reversed(installations().values())]
        found = next(reachable(folder) / program for folder in folders if (folder / program).exists())
        subprocess.run(as_nobody([str(found), *arguments]), check=True, capture_output=True, cwd="/")


class Standby(PostgresProcess):
    """A copy that follows another server, until it is promoted."""

    def __init__(self, primary: PostgresProcess, *settings: str) -> None:
        self.primary = primary
        follow = f"primary_conninfo=host=127.0.0.1 port={primary.port} user=postgres"
        super().__init__(follow, *settings, bin=primary.bin)

    def _make_data(self) -> None:
        self.run("pg_basebackup", "-d", self.primary.dsn, "-D", str(self.data), "-X", "stream", "-c", "fast")
        (self.data / "standby.signal").touch()

    def promote(self) -> None:
        """It is the primary now."""
        self.execute("SELECT pg_promote()")


def _folder(place: Path | None = None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="headgate-pg-", dir=place or temporary_root()))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    return folder


@cache
def _empty_data(bin: Path) -> Path:
    """The data of an empty server, made once in a run and copied for each."""
    target = run_folder() / f"empty-{fingerprint(bin)}"
    if not target.exists():
        making = _folder(run_folder())
        command = [str(bin / "initdb"), "-D", str(making / "data"), "-U", "postgres", "-A", "trust"]
        subprocess.run(
            as_nobody([*command, "-E", "UTF8", "--locale=C", "-N"]), check=True, capture_output=True, cwd="/"
        )
        try:
            making.rename(target)
        except OSError:  # another process of the run was first
            shutil.rmtree(making)
    return target / "data"


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@cache
def shared_server() -> PostgresProcess:
    """The server of this session. Its commits do not wait for the disk; durability has tests of its own."""
    server = PostgresProcess("fsync=off", "synchronous_commit=off", "autovacuum_naptime=5s")
    atexit.register(server.stop)
    server.start()
    return server


CLEAN = """
CREATE FUNCTION pg_temp.clean(p_schema text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    FOR v_name IN SELECT tablename FROM pg_tables WHERE schemaname = p_schema AND tablename <> 'meta' LOOP
        EXECUTE format('DELETE FROM %I.%I', p_schema, v_name);
    END LOOP;
END $$
"""


@cache
def _cleaner(process: int) -> Any:
    """A connection of this process that stays: a new one takes longer than what it is made for."""
    import psycopg

    connection = psycopg.connect(shared_server().dsn, autocommit=True)
    connection.execute(CLEAN)
    atexit.register(connection.close)
    return connection


_stock: list[str] = []
_made = 0


def borrow_schema() -> str:
    """An empty schema; new ones are made as engines open them. Its name has what SQL and drivers trip over."""
    global _made
    if _stock:
        schema = _stock.pop()
        _cleaner(os.getpid()).execute("SELECT pg_temp.clean(%s)", [schema])
        return schema
    _made += 1
    return f'test "{_made}" %s :p1 headgate.jobs schéma'


def name_schemas_from(number: int) -> None:
    """In a fork: those that the others have made are not its own."""
    global _made
    _stock.clear()
    _made = number


def give_back_schema(schema: str) -> None:
    _stock.append(schema)
