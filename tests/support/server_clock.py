"""The clock of a server, for a test to move: a library that the server preloads, and a file with the shift."""

from __future__ import annotations

import struct

from tests.support.preloaded import library, shared_file


class ServerClock:
    """`environment` is what the server is started with; `jump` moves its clock at once."""

    def __init__(self) -> None:
        self._file = shared_file(struct.pack("q", 0))
        self.environment = {
            "LD_PRELOAD": str(library("server_clock.c")),
            "SERVER_CLOCK_FILE": str(self._file),
        }

    def jump(self, seconds: float) -> None:
        """From now on the server's clock is so far ahead of the machine's."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))

    def close(self) -> None:
        self._file.unlink()
