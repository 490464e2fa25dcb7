"""The store's URL, from what Django knows of a database."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections

from headgate.errors import ConfigError

PASSED_ON = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "target_session_attrs")
"""Options of libpq that say how to reach the server; the rest says what Django does with a connection."""
BESIDE = "headgate.db"


def url_of(alias: str) -> str:
    """Where the store is: in a PostgreSQL database of Django's; beside an SQLite file, which has a lock of its own.

    Asked whenever the store is opened, since a test run has databases of its own."""
    connection = connections[alias]
    match connection.vendor:
        case "postgresql":
            return postgres_url(alias, connection.settings_dict)
        case "sqlite":
            return _beside(connection)
        case _:
            raise ConfigError(
                f"no store can be in the database {alias!r} ({connection.display_name}): name another one in the "
                "settings, as in HEADGATE = {'url': 'redis://localhost'}"
            )


def postgres_url(alias: str, given: dict[str, Any]) -> str:
    """The URL that leads where this entry of DATABASES does."""
    options = {name: str(value) for name, value in given["OPTIONS"].items() if name in PASSED_ON}
    if "service" in given["OPTIONS"] or not given["NAME"]:
        raise ConfigError(
            f"the database {alias!r} is described by a service file, which Headgate does not read: name the store in "
            "the settings, HEADGATE = {'url': 'postgresql://…', 'database': …}"
        )
    host, port = str(given["HOST"]), str(given["PORT"])
    if host.startswith("/"):
        options = {"host": host, **({"port": port} if port else {}), **options}
        host = port = ""
    user = quote(given["USER"], "") + (f":{quote(given['PASSWORD'], '')}" if given["PASSWORD"] else "")
    query = f"?{urlencode(options)}" if options else ""
    return f"postgresql://{user + '@' if user else ''}{_hosts(host, port)}/{quote(given['NAME'], '')}{query}"


def _hosts(host: str, port: str) -> str:
    """libpq takes several, with as many ports or one for all."""
    hosts, ports = host.split(","), port.split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    named = [f"[{one}]" if ":" in one else one for one in hosts]
    return ",".join(f"{one}:{its}" if its else one for one, its in zip(named, ports, strict=True))


def _beside(connection: Any) -> str:
    if connection.is_in_memory_db():
        return f"memory://{connection.alias}"
    folder = os.path.dirname(os.path.abspath(connection.settings_dict["NAME"]))
    return f"sqlite:///{quote(os.path.join(folder, BESIDE))}"
