"""Jobs in Redis or Valkey: Lua scripts for the atomic steps, one connection per event loop for all of them."""

from headgate.engine.redis.engine import RedisEngine

__all__ = ["RedisEngine"]
