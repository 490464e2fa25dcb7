"""Which queues a worker serves, and in which order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import cast

from headgate.errors import ConfigError
from headgate.job import INTERNAL_QUEUE
from headgate.keys import check_text


class Queues:
    """None serves all queues by priority; a list serves them strictly in order; weights draw an order each time.

    With weights, a queue of weight 3 comes first three times as often as one of weight 1; while it is empty the
    others have it all.
    """

    __slots__ = ("_internal", "_names", "_weights")

    def __init__(self, queues: Iterable[str] | Mapping[str, float] | None, *, internal: bool = False) -> None:
        self._internal = (INTERNAL_QUEUE,) if internal else ()
        self._weights: dict[str, float] | None = None
        self._names: tuple[str, ...] | None = None
        if queues is not None:
            self._names = _names(queues)
            self._weights = (
                _weights(cast("Mapping[str, float]", queues)) if isinstance(queues, Mapping) else None
            )

    @property
    def named(self) -> tuple[str, ...] | None:
        """Those that it was told to serve; None for all."""
        return self._names

    @property
    def served(self) -> tuple[str, ...] | None:
        """All that this worker serves."""
        return None if self._names is None else self._internal + self._names

    def order(self) -> tuple[str, ...] | None:
        """The order for one exchange."""
        if self._weights is None:
            return self.served
        weights = self._weights
        # Drawing without replacement in proportion to weight is sorting by a random number to the power of 1/weight.
        draw = sorted(weights, key=lambda name: random.random() ** (1 / weights[name]), reverse=True)
        return self._internal + tuple(draw)


def _names(queues: Iterable[str]) -> tuple[str, ...]:
    if isinstance(queues, str):
        raise ConfigError(f"queues={queues!r}: a list is needed, e.g. [{queues!r}]")
    names = tuple(dict.fromkeys(check_text(name, "queue") for name in queues if name != INTERNAL_QUEUE))
    if not names:
        raise ConfigError("queues=: at least one queue is needed; leave it out to serve all of them")
    return names


def _weights(queues: Mapping[str, float]) -> dict[str, float]:
    for name, weight in queues.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < 1e6:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"queues={{{name!r}: {weight!r}}}: a weight is a number above 0")
    return {name: float(weight) for name, weight in queues.items() if name != INTERNAL_QUEUE}
