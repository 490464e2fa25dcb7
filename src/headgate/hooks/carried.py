"""What travels with an attempt from its worker to the process of the pool that runs it, such as the context of a trace.

Context variables do not cross that border. What the app has registered gives texts on one side and takes them on the
other, where the same app is loaded: pairs find each other by name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from headgate.errors import ConfigError

Texts = Mapping[str, str]
Give = Callable[[], Texts]
Take = Callable[[Texts], AbstractContextManager[Any]]


class Carried:
    """The pairs of one app; empty for most."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[Give, Take]] = {}

    def add(self, name: str, give: Give, take: Take) -> None:
        """Let a pair of functions carry something."""
        if name in self._pairs:
            raise ConfigError(f"app.carry({name!r}): something is carried under this name already")
        if not callable(give) or not callable(take):
            raise ConfigError(f"app.carry({name!r}): two functions are needed, give=… and take=…")
        self._pairs[name] = give, take

    def given(self) -> dict[str, dict[str, str]]:
        """What is to travel, by name; in the worker, where the attempt's context is."""
        return {name: _texts(give()) for name, (give, _) in self._pairs.items()}

    @contextmanager
    def taken(self, carried: Mapping[str, Texts]) -> Generator[None]:
        """Inside all that has arrived; in the process of the pool."""
        with ExitStack() as stack:
            for name, (_, take) in self._pairs.items():
                if name in carried:
                    stack.enter_context(take(carried[name]))
            yield


def _texts(given: Any) -> dict[str, str]:
    if isinstance(given, Mapping):
        texts: dict[Any, Any] = {**given}
        if all(isinstance(each, str) for pair in texts.items() for each in pair):
            return texts
    raise ConfigError(f"give= of app.carry() returned {given!r:.80}; it returns a mapping of texts")
