"""Retry policies: how often an attempt is repeated, and after how long."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

import msgspec

from headgate.clock import SECOND, duration_us
from headgate.errors import ConfigError

Kind = type[BaseException]
Kinds = Kind | tuple[Kind, ...]


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
        return self.spread(self.wait(tries))

    def spread(self, wait: int) -> int:
        """A wait, longer or shorter by up to the jitter's fraction of it."""
        return int(wait * (1 + self.jitter * random.uniform(-1, 1)))


class Retry:
    """How a task is retried: `Retry(attempts=5, delay=1, backoff=2, max_delay=60, on=(OSError,))`.

    `attempts` counts the first run. `backoff` multiplies the delay each time (1 keeps it fixed), up to `max_delay`
    seconds; `jitter` spreads it by that fraction. Only the exceptions in `on` are retried: classes, or a function of
    the exception that says so. `delays` names exceptions that wait so many seconds instead, whatever the attempt:
    `delays={TooManyRequests: 30}`; the first class that fits counts. An exception group is retried where all that is in
    it is, and waits for the longest of their delays.

    Attempts that are lost with their worker do not count. The job comes back at once, and fails only when it was lost
    `losses` times and was its worker's only suspect the last time. 0 means at most once: the first loss fails it.
    """

    __slots__ = ("_delays", "_kinds", "_says", "on", "policy")

    def __init__(
        self,
        attempts: int = 3,
        delay: float | timedelta = 1,
        backoff: float = 2,
        max_delay: float | timedelta = 3600,
        jitter: float = 0.1,
        on: Kinds | Callable[[Exception], object] = (Exception,),
        losses: int = 5,
        delays: Mapping[Kind, float | timedelta] | None = None,
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
        self.on = on
        self._kinds, self._says = _on(on)
        self._delays = _delays(delays)

    def covers(self, error: BaseException) -> bool:
        """Whether this policy retries such an error."""
        if self._names(error):
            return True
        return isinstance(error, BaseExceptionGroup) and all(self.covers(one) for one in _leaves(error))

    def wait(self, error: BaseException, tries: int, policy: RetryPolicy | None = None) -> int:
        """Microseconds to wait after such an error; `policy` is the one that the job was enqueued with."""
        policy = self.policy if policy is None else policy
        delay = self._delay(error)
        return policy.wait_with_jitter(tries) if delay is None else policy.spread(delay)

    def _names(self, error: BaseException) -> bool:
        if self._says is None or not isinstance(error, Exception):
            return isinstance(error, self._kinds)
        try:
            return bool(self._says(error))
        except Exception as second:  # what says whether to retry must not hide why the job failed
            error.add_note(f"not retried: the function in Retry(on=…) raised {second!r}")
            return False

    def _delay(self, error: BaseException) -> int | None:
        own = next((delay for kind, delay in self._delays if isinstance(error, kind)), None)
        if own is None and isinstance(error, BaseExceptionGroup):
            found = [delay for one in _leaves(error) if (delay := self._delay(one)) is not None]
            return max(found, default=None)
        return own

    def __repr__(self) -> str:
        p = self.policy
        delays = f"delay={p.delay / SECOND:g}, backoff={p.backoff:g}, max_delay={p.max_delay / SECOND:g}"
        return f"Retry(attempts={p.attempts}, {delays}, losses={p.losses})"


def _on(on: Any) -> tuple[tuple[Kind, ...], Callable[[Exception], object] | None]:
    """The classes that are retried, or the function that says it."""
    if callable(on) and not isinstance(on, type):
        return (), on
    kinds = cast("tuple[Any, ...]", on) if isinstance(on, tuple) else (on,)
    for kind in kinds:
        if not _is_kind(kind):
            raise ConfigError(
                f"Retry(on={on!r}): {kind!r} is not an exception class; give classes, or one function of the exception"
            )
    return kinds, None


def _delays(given: Any) -> tuple[tuple[Kind, int], ...]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise ConfigError(f"Retry(delays={given!r}): a mapping is needed, as in {{TimeoutError: 30}}")
    delays = cast("Mapping[Any, Any]", given)
    for kind in delays:
        if not _is_kind(kind):
            raise ConfigError(f"Retry(delays={given!r}): {kind!r} is not an exception class")
    return tuple((kind, duration_us(delay, "Retry(delays=)")) for kind, delay in delays.items())


def _is_kind(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _leaves(group: Any) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 1_000_000


LOST_ONLY = Retry(attempts=3, on=(), jitter=0.0)
"""The default: an exception fails the job at once; an attempt that is lost with its worker is run again."""
