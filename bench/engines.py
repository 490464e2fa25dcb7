"""The stores Headgate can be measured on, and the peers that use the same store."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import postgres


@dataclass(frozen=True)
class Engine:
    """A store: the URL of a fresh one, given an empty directory, and which peers are measured beside Headgate."""

    name: str
    url: Callable[[Path], str]
    peers: tuple[str, ...]


ENGINES = {
    "sqlite": Engine(
        "sqlite",
        url=lambda scratch: f"sqlite:///{scratch / 'headgate.db'}",
        peers=("flexiq", "huey", "huey-normal"),
    ),
    "postgres": Engine("postgres", url=postgres.url, peers=()),
}
