"""Who is measured: Headgate, and its peers at pinned versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class System:
    """A job queue and the module that runs the workloads on it.

    `environment` names the virtual environment its pins are installed in; Headgate runs in the one that is active.
    """

    name: str
    module: str
    environment: str | None = None
    pins: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _peer(name: str, *pins: str) -> System:
    return System(name, f"bench.runners.{name}_runner", name, pins)


def _variant(system: System, name: str, **settings: Any) -> System:
    """The same installation with other settings."""
    return System(name, system.module, system.environment, system.pins, settings)


REDIS_PINS = ("redis==8.1.0", "hiredis==3.5.0")
UVLOOP = "uvloop==0.23.0"
PSYCOPG_PINS = ("psycopg[binary]==3.3.8", "psycopg-pool==3.3.3")

DOCKET = _peer("docket", "pydocket==0.27.0", *REDIS_PINS, UVLOOP)
HUEY = _peer("huey", "huey==3.5.4", *REDIS_PINS)
PGQUEUER = _peer("pgqueuer", "pgqueuer==1.6.0", "asyncpg==0.32.0", UVLOOP)

SYSTEMS = {
    system.name: system
    for system in (
        System("headgate", "bench.runners.headgate"),
        _peer("celery", "celery==5.7.0", "packaging==26.3", *REDIS_PINS),
        DOCKET,
        _variant(DOCKET, "docket-default", tuned=False),
        _peer("dramatiq", "dramatiq==2.2.1", *REDIS_PINS),
        _peer("flexiq", "flexiq==2.1.0", "cbor2==6.2.1", "cloudpickle==3.1.2", "msgpack==1.2.4"),
        HUEY,
        # Huey syncs an SQLite file at every commit unless told otherwise, and offers nothing between that and never.
        # This patches in the level that Headgate and FlexiQ have by default, so that all is in view.
        _variant(HUEY, "huey-normal", synchronous="normal"),
        PGQUEUER,
        _variant(PGQUEUER, "pgqueuer-default", batch=10),
        _peer("procrastinate", "procrastinate==3.10.0", *PSYCOPG_PINS, UVLOOP),
        # SAQ does not allow a newer client.
        _peer("saq", "saq==0.26.4", "redis==7.4.1", "hiredis==3.5.0", *PSYCOPG_PINS, UVLOOP),
        _peer("taskiq", "taskiq==0.13.0", "taskiq-redis==1.2.4", *REDIS_PINS, UVLOOP),
    )
}
