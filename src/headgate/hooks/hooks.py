"""Hooks: what one app has hung into its producers and workers. The worker calls them; it knows nothing of the app."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from headgate.errors import ConfigError
from headgate.hooks.carried import Carried
from headgate.hooks.dependencies import Dependency, Factory, HintsOf, Plan, Planner, Shape, shape_of
from headgate.hooks.enqueueing import Enqueueing
from headgate.hooks.lifespan import LifespanFunction
from headgate.hooks.listeners import Listener, Listeners
from headgate.hooks.middleware import Middleware


class Hooks:
    """Empty until the app hangs something in."""

    __slots__ = (
        "_overrides",
        "_plans",
        "_shapes",
        "app",
        "carried",
        "enqueueing",
        "lifespan",
        "listeners",
        "middleware",
        "worker_listeners",
    )

    def __init__(self, app: Any = None, lifespan: LifespanFunction | None = None) -> None:
        self.app = app
        """What the lifespan function is called with."""
        self.carried = Carried()
        self.enqueueing = Enqueueing()
        self.lifespan = lifespan
        self.listeners = Listeners()
        self.middleware: list[Middleware] = []
        self.worker_listeners: list[Callable[[Any], None]] = []
        """What each worker of the app tells of its own business: exchanges, leases, outages (worker/events.py)."""
        self._shapes: dict[Factory, Shape] = {}
        self._overrides: dict[Factory, Factory] = {}
        self._plans: dict[str, Plan] = {}

    def also_telling(self, names: Iterable[str], listener: Listener) -> Hooks:
        """The same hooks with one more listener, for a worker that is to be watched alone."""
        watched = copy.copy(self)
        watched.listeners = self.listeners.copy()
        watched.listeners.add(names, listener)
        return watched

    def plan(self, task: str, dependencies: Mapping[str, Dependency]) -> Plan:
        """What to make for an attempt of this task."""
        plan = self._plans.get(task)
        if plan is None:
            plan = self._plans[task] = Planner(self._shapes.__getitem__, self._overrides).plan(dependencies)
        return plan

    def check(self, dependencies: Mapping[str, Dependency], hints_of: HintsOf) -> None:
        """Look at all factories behind these dependencies; refuse what cannot be made."""
        Planner(lambda factory: self._look(factory, hints_of), {}).plan(dependencies)

    @contextmanager
    def override(self, factory: Factory, fake: Factory, hints_of: HintsOf) -> Generator[None]:
        """Use `fake` wherever `factory` would be called, for a while."""
        if not callable(fake):
            raise ConfigError(f"app.override(…, {fake!r}): a function is needed, as in lambda: {fake!r}")
        before, after = self._overrides, {**self._overrides, factory: fake}
        Planner(lambda each: self._look(each, hints_of), {}).plan({"": Dependency(fake, "attempt")})
        self._overrides, self._plans = after, {}
        try:
            yield
        finally:
            self._overrides, self._plans = before, {}

    def _look(self, factory: Factory, hints_of: HintsOf) -> Shape:
        shape = self._shapes.get(factory)
        if shape is None:
            shape = self._shapes[factory] = shape_of(factory, hints_of)
        return shape
