"""The tables of `select` for stores without SQL of their own: virtual tables of SQLite over what a source reads."""

from headgate.engine.tables.asking import Bridge, ask
from headgate.engine.tables.question import Question
from headgate.engine.tables.source import Source, VerbSource
from headgate.engine.tables.virtual import create_tables

__all__ = ["Bridge", "Question", "Source", "VerbSource", "ask", "create_tables"]
