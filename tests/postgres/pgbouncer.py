"""A real pgbouncer in front of a server, in transaction mode: each transaction gets whatever connection is free."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.support.postgres_binaries import NOBODY, as_nobody, temporary_root
from tests.support.postgres_server import PostgresProcess, free_port
from tests.support.waiting import eventually

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
logfile = {folder}/log
"""


def program() -> str | None:
    """pgbouncer, where it is installed; distributions put it where only root looks."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """A pooler with a few connections to its server."""

    def __init__(self, server: PostgresProcess, size: int = 3) -> None:
        found = program()
        assert found is not None
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-pgbouncer-", dir=temporary_root()))
        self.port = free_port()
        settings = SETTINGS.format(server=server.port, port=self.port, folder=self.folder, size=size)
        (self.folder / "ini").write_text(settings)
        (self.folder / "users").write_text('"postgres" ""\n')
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        self.process = subprocess.Popen(
            as_nobody([found, "-q", str(self.folder / "ini")]), stderr=subprocess.DEVNULL
        )
        self._wait()

    def _wait(self) -> None:
        eventually(self._answers, "pgbouncer to answer")

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def url(self, schema: str, *options: str) -> str:
        """`schema` quoted as URLs want it."""
        return "&".join([f"postgresql://postgres@127.0.0.1:{self.port}/postgres?schema={schema}", *options])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
