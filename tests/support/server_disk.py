"""The disk of a server, for a test to fill: a library that the server preloads, and a file that says "full".

A file that is there may be written over, and none may grow, as on a real disk.
"""

from __future__ import annotations

from tests.support.preloaded import library, shared_file


class ServerDisk:
    """`environment` is what the server is started with."""

    def __init__(self) -> None:
        self._file = shared_file(b"\0")
        self.environment = {"LD_PRELOAD": str(library("full_disk.c")), "FULL_DISK_FILE": str(self._file)}

    def fill(self) -> None:
        """From now on no file grows."""
        self._say(b"\1")

    def make_room(self) -> None:
        """Now they do."""
        self._say(b"\0")

    def _say(self, full: bytes) -> None:
        with self._file.open("r+b") as file:  # never empty: the server has mapped it
            file.write(full)

    def close(self) -> None:
        self._file.unlink()
