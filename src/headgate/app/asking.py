"""What all parts of an app share that ask its store."""

from __future__ import annotations

from typing import Any

from headgate.app.client import Client
from headgate.app.sync import SyncLoop
from headgate.app.task import AnyTask
from headgate.errors import ConfigError
from headgate.limits.declared import MAX_NUMBER


class Asking:
    """A way to the store, and the tasks of this program."""

    _client: Client
    _tasks: dict[str, AnyTask]

    @property
    def sync_loop(self) -> SyncLoop:
        """Where the sync twins run."""
        return self._client.sync_loop


def check_size(value: Any, what: str = "size") -> int:
    """How many records an answer holds."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_NUMBER:
        raise ConfigError(f"{what}={value!r}: a whole number from 1 to {MAX_NUMBER:,} is needed")
    return value
