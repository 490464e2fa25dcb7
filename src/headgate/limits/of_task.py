"""All limits of one task: found in its signature, given with `limits=`, and its own cap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headgate.engine.contract import Limit
from headgate.errors import ConfigError
from headgate.keys import MAX_USES, Use, canonical
from headgate.limits.adapt import Adaptive
from headgate.limits.bound import BoundLimit
from headgate.limits.declared import DeclaredLimit, check_max
from headgate.limits.in_signature import LimitInSignature
from headgate.limits.parameters import Arguments, Parameters


class TaskLimits:
    """Bound once, at declaration. The cap is looked up by the store, so that jobs do not carry it."""

    __slots__ = ("_parameters", "adaptive", "bound", "cap")

    def __init__(
        self,
        parameters: Parameters,
        found: Iterable[LimitInSignature],
        given: Iterable[Any],
        max_concurrent: int | None,
    ) -> None:
        self._parameters = parameters
        in_signature = (BoundLimit(one.limit, parameters, one.own, one.called) for one in found)
        self.bound = (*in_signature, *self.bind(given))
        self.adaptive = tuple(
            (bound, adaptive) for bound in self.bound if (adaptive := bound.limit.adaptive) is not None
        )
        self.cap = _cap(parameters.task, max_concurrent)
        if len(self.bound) > MAX_USES:
            raise ConfigError(
                f"task {parameters.task!r} declares {len(self.bound)} limits; a job may have at most {MAX_USES}"
            )

    def bind(self, limits: Iterable[Any], *, by_job: bool = False) -> tuple[BoundLimit, ...]:
        """Limits from a `limits=` of the task, or of single jobs of it, bound to its parameters."""
        return tuple(BoundLimit(self._checked(limit), self._parameters, by_job=by_job) for limit in limits)

    @property
    def parameters(self) -> Parameters:
        """The parameters that keys, costs and numbers are read from."""
        return self._parameters

    def _checked(self, limit: Any) -> DeclaredLimit:
        if not isinstance(limit, DeclaredLimit):
            raise ConfigError(f"limits= of task {self._parameters.task!r}: {limit!r} is not a limit")
        return limit

    def learning(self, arguments: Arguments, tenant: str) -> dict[str, Adaptive]:
        """The keys of a job whose number follows how its attempts end."""
        return {
            use.key: adaptive for bound, adaptive in self.adaptive for use in bound.use(arguments, tenant)
        }

    def uses(self, arguments: Arguments, tenant: str, extra: tuple[BoundLimit, ...]) -> tuple[Use, ...]:
        """What one job needs; `extra` are limits of its own."""
        limits = self.bound + extra if extra else self.bound
        if not limits:
            return ()
        if len(limits) == 1:
            return limits[0].use(arguments, tenant)
        needs = [need for bound in limits if (need := bound.need(arguments, tenant)) is not None]
        uses = canonical(needs)
        if len(uses) > MAX_USES:
            raise ConfigError(
                f"a job of task {self._parameters.task!r} would have {len(uses)} limits; at most {MAX_USES} are allowed"
            )
        return uses


def _cap(task: str, max_concurrent: int | None) -> Limit | None:
    if max_concurrent is None:
        return None
    return Limit(f"task:{task}", "concurrency", check_max(max_concurrent, f"max_concurrent of task {task!r}"))
