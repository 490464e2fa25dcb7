"""Fair shares as code declares them: which queues are shared, by what, and the weights of shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast, get_args

from headgate.engine.contract import Engine, ShareWeight
from headgate.errors import ConfigError
from headgate.job import Charge
from headgate.keys import check_length, check_text
from headgate.limits.parameters import Arguments, Parameters, read_by_function
from headgate.limits.template import read_by_template

ShareBy = str | Callable[..., Any]
"""`"tenant"`, the name of an argument, a template over the arguments, or a function of them."""
BY_TENANT = "tenant"
NOBODYS = "-"
"""The share of jobs without one in a shared queue: they have no right to go first."""

ReadShare = Callable[[Arguments, str], str]
"""From a job's arguments and tenant to its share."""


class QueueShares(NamedTuple):
    """How a queue is shared. Without `share_by` each job says its share itself."""

    share_by: ShareBy | None
    charge: Charge


class Shares:
    """What one program says about fair shares, and what of it the store has yet to hear."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueShares] = {}
        self._weights: dict[str, ShareWeight] = {}
        self.unsent: dict[str, ShareWeight] = {}

    def declare(self, queue: str, said: QueueShares, weights: Mapping[str, float]) -> None:
        """Take up what stands in code, all or none."""
        if self.queues.get(queue, said) != said:
            raise ConfigError(
                f"queue {queue!r} is declared twice with different shares: {self.queues[queue]} and {said}"
            )
        made = {share: ShareWeight(share, weight) for share, weight in weights.items()}
        for share, weight in made.items():
            known = self._weights.get(share, weight)
            if known != weight:
                raise ConfigError(
                    f"share {share!r} is declared with two weights: {known.weight:g} and {weight.weight:g}; a share "
                    "has one weight in all queues"
                )
        self.queues[queue] = said
        self._weights |= made
        self.unsent |= made

    async def send(self, engine: Engine) -> None:
        """Tell the store what it has yet to hear."""
        if self.unsent:
            sent = dict(self.unsent)
            await engine.declare_shares(list(sent.values()))
            for share, weight in sent.items():
                if self.unsent.get(share) is weight:
                    del self.unsent[share]

    def all_unsent(self) -> None:
        """Another store: tell it everything again."""
        self.unsent = dict(self._weights)

    def reader(self, queue: str, parameters: Parameters) -> ReadShare | None:
        """How to find the share of a task's job in a queue; None where jobs say it themselves."""
        said = self.queues[queue].share_by
        if said is None:
            return None
        if said == BY_TENANT:
            return lambda arguments, tenant: tenant or NOBODYS
        read = _reader(said, parameters, f"queue {queue!r}, share_by={said!r}")
        text = parameters.text

        def share(arguments: Arguments, tenant: str) -> str:
            value = read(arguments)
            return NOBODYS if value is None else check_share(text(value) or NOBODYS)

        return share


def _reader(said: ShareBy, parameters: Parameters, where: str) -> Callable[[Arguments], Any]:
    if callable(said):
        return read_by_function(said, parameters, None, where)[0]
    return (
        parameters.read(said, where) if said.isidentifier() else read_by_template(said, parameters, where)[0]
    )


def check_share(value: Any) -> str:
    """The name of a share."""
    share = check_text(value, "share")
    check_length(share, "share")
    return share


def queue_shares(
    queue: str, share_by: Any, weights: Any, charge: Any
) -> tuple[QueueShares, dict[str, float]] | None:
    """What `app.queue()` was told about shares, checked; None where nothing was."""
    if share_by is None and weights is None and charge is None:
        return None
    if share_by is not None and not (callable(share_by) or (isinstance(share_by, str) and share_by)):
        raise ConfigError(
            f"queue {queue!r}: share_by={share_by!r}: 'tenant', the name of an argument, a template or a function of "
            "the arguments is needed"
        )
    said = "starts" if charge is None else charge
    if said not in get_args(Charge):
        raise ConfigError(f"queue {queue!r}: charge={charge!r}: 'starts' or 'time' is needed")
    if weights is not None and not isinstance(weights, Mapping):
        raise ConfigError(f"queue {queue!r}: weights={weights!r}: a mapping such as {{'acme': 3}} is needed")
    given = cast("Mapping[Any, Any]", weights or {})
    return QueueShares(share_by, said), {check_share(one): check_weight(given[one]) for one in given}


def check_weight(value: Any) -> float:
    """More than nothing: a share of weight 0 would never start."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(
            f"weight {value!r}: a number above 0 is needed; to stop a tenant's jobs, close a limit of theirs"
        )
    if not 0.001 <= value <= 1_000_000:
        raise ConfigError(f"weight {value!r}: from 0.001 to 1,000,000; a share's usual weight is 1")
    return float(value)
