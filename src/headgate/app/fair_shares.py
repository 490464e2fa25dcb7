"""Fair shares as operators see them: their weights, and how many of their jobs wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from headgate.app.asking import Asking, check_size
from headgate.app.info import Info
from headgate.app.sharing import check_share, check_weight
from headgate.app.sync import twin
from headgate.app.until import ends_at
from headgate.clock import from_us
from headgate.engine.contract import ShareStatus, ShareWeight

SHARES_PER_STEP = 1000


class WeightInfo(Info, frozen=True):
    """An operator's word on a share."""

    weight: float
    by: str
    at: datetime
    why: str
    until: datetime | None


class ShareInfo(Info, frozen=True):
    """A fair share as it stands: the weight in force, what code declares, what an operator said, and how many of its
    jobs are ready or waiting, over all queues."""

    share: str
    weight: float
    declared: float | None
    override: WeightInfo | None
    pending: int


class FairShares(Asking):
    """The part of an app that looks at the shares of shared queues and weighs them."""

    async def set_share(
        self,
        share: str,
        weight: float,
        *,
        by: str = "",
        why: str = "",
        until: datetime | timedelta | float | None = None,
    ) -> None:
        """Give a share another weight, also for what waits already, until it is cleared or runs out.

        A share of weight 3 gets three starts for each of a share of weight 1. `until` is a point in time, or a duration
        from now."""
        name, number = check_share(share), check_weight(weight)
        engine = await self._client.engine()
        now = await engine.clock()
        await engine.set_share(ShareWeight(name, number, by, now, why, ends_at(until, now)))

    async def clear_share(self, share: str) -> bool:
        """Take an operator's weight back; False if there was none."""
        name = check_share(share)
        return await (await self._client.engine()).clear_share(name)

    async def shares(self, *, size: int | None = None, after: str | None = None) -> list[ShareInfo]:
        """The shares that have ready or waiting jobs, or a weight of their own, in the order of their names; at most
        `size`, behind the one named `after`."""
        most = None if size is None else check_size(size)
        last = None if after is None else check_share(after)
        engine = await self._client.engine()
        found: list[ShareInfo] = []
        while most is None or len(found) < most:
            wanted = SHARES_PER_STEP if most is None else min(SHARES_PER_STEP, most - len(found))
            page = await engine.shares(after=last, limit=wanted)
            found += [share_info(status) for status in page]
            if len(page) < wanted:
                break
            last = page[-1].share
        return found

    set_share_sync = twin(set_share)
    clear_share_sync = twin(clear_share)
    shares_sync = twin(shares)


def share_info(status: ShareStatus) -> ShareInfo:
    """A share's status for people."""
    said = status.override
    return ShareInfo(
        share=status.share,
        weight=status.weight,
        declared=status.declared,
        override=None
        if said is None
        else WeightInfo(
            weight=said.weight,
            by=said.by,
            at=from_us(said.at),
            why=said.why,
            until=None if said.until is None else from_us(said.until),
        ),
        pending=status.pending,
    )
