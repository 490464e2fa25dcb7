"""The memory engine: the specification that the other engines are compared with, and `memory://` for tests."""

from headgate.engine.memory.engine import MemoryEngine

__all__ = ["MemoryEngine"]
