"""The SQLite engine: a file, any number of processes on one machine, nothing to install or run."""

from headgate.engine.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
