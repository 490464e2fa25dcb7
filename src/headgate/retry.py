"""Retry policies: how often an attempt is repeated, and after how long."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import msgspec

from headgate.clock import SECOND, duration_us
from headgate.errors import ConfigError


class RetryPolicy(msgspec.Struct, frozen=True, array_like=True):
    """What a store keeps of a policy. Delays are microseconds; `attempts` counts the first run, too."""

    attempts: int = 3
    delay: int = SECOND
    backoff: float = 2.0
    max_delay: int = 3600 * SECOND
    jitter: float = 0.0
    losses: int = 5

    def wait(self, tries: int) -> int:
        """Microseconds to wait after the `tries`-th counted attempt, without jitter: every store computes the same."""
        if self.delay == 0:
            return 0
        exponent = min(tries - 1, 64)
        return int(min(self.max_delay, self.delay * self.backoff**exponent))

    def wait_with_jitter(self, tries: int) -> int:
        """The same, spread by up to ± jitter so that jobs which failed together do not come back together."""
        base = self.wait(tries)
        return int(base * (1 + self.jitter * random.uniform(-1, 1)))


class Retry:
    """How a task is retried: `Retry(attempts=5, delay=1, backoff=2, max_delay=60, on=(OSError,))`.

    `attempts` counts the first run. `backoff` multiplies the delay each time (1 keeps it fixed), up to `max_delay`
    seconds; `jitter` spreads it by that fraction. Only the exceptions in `on` are retried.

    Attempts that are lost with their worker do not count. The job comes back at once, and fails only when it was lost
    `losses` times and was its worker's only suspect the last time. 0 means at most once: the first loss fails it.
    """

    __slots__ = ("on", "policy")

    def __init__(
        self,
        attempts: int = 3,
        delay: float | timedelta = 1,
        backoff: float = 2,
        max_delay: float | timedelta = 3600,
        jitter: float = 0.1,
        on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,),
        losses: int = 5,
    ) -> None:
        if not _whole(attempts, 1):
            raise ConfigError(
                f"Retry(attempts={attempts!r}): a whole number from 1 is needed; 1 means no retry"
            )
        if not _whole(losses, 0):
            raise ConfigError(
                f"Retry(losses={losses!r}): a whole number from 0 is needed; 0 means that a job which is lost with its "
                "worker is not run again"
            )
        if not isinstance(backoff, int | float) or not 1 <= backoff <= 1000:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"Retry(backoff={backoff!r}): a number from 1 (fixed delay) to 1000 is needed")
        if not isinstance(jitter, int | float) or not 0 <= jitter <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"Retry(jitter={jitter!r}): a fraction from 0 to 1 is needed")
        self.policy = RetryPolicy(
            attempts,
            duration_us(delay, "Retry(delay=)"),
            float(backoff),
            duration_us(max_delay, "Retry(max_delay=)"),
            float(jitter),
            losses,
        )
        self.on = on if isinstance(on, tuple) else (on,)
        for kind in self.on:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"Retry(on={on!r}): {kind!r} is not an exception class")

    def covers(self, error: BaseException) -> bool:
        """Whether this policy retries such an error."""
        return isinstance(error, self.on)

    def __repr__(self) -> str:
        p = self.policy
        delays = f"delay={p.delay / SECOND:g}, backoff={p.backoff:g}, max_delay={p.max_delay / SECOND:g}"
        return f"Retry(attempts={p.attempts}, {delays}, losses={p.losses})"


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 1_000_000


LOST_ONLY = Retry(attempts=3, on=(), jitter=0.0)
"""The default: an exception fails the job at once; an attempt that is lost with its worker is run again."""
