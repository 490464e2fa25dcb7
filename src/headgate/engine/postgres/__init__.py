"""Jobs in a PostgreSQL database: server-side functions decide, one round trip per verb."""

from headgate.engine.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
