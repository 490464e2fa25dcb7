"""The tables of `select` for stores without SQL of their own: virtual tables of SQLite over what a source reads."""

from headgate.engine.tables.asking import ask
from headgate.engine.tables.source import Source, VerbSource

__all__ = ["Source", "VerbSource", "ask"]
