"""Counting jobs for a reader who waits: up to a bound, and saying so."""

from __future__ import annotations

from headgate.app import internal_jobs
from headgate.app.info import Info
from headgate.engine.contract import Engine, Filter

COUNTED = 10_000
"""How many jobs are counted before the answer is a lower bound."""
FOUND = 2000
"""How many are counted of a filter for which jobs have to be looked through: they are read one by one."""
PAGE = 1000
PAGES = 20
"""Pages that are looked at, each of which looks at so many jobs only that it answers at once."""


class CountInfo(Info, frozen=True):
    """How many jobs match. Where `exact` is False, not all were looked at: there are at least so many; of a filter of
    nothing but states it is the store's own count, in which Headgate's own jobs are."""

    matching: int
    exact: bool


async def count_up_to(engine: Engine, wanted: Filter, most: int) -> CountInfo:
    """By the cheapest way that the filter allows: ids are looked up, states have counts, the rest is looked through."""
    if wanted.ids is not None:
        return CountInfo(matching=await engine.count(wanted), exact=True)
    if wanted == Filter(states=wanted.states):
        totals = await engine.totals(most=most)
        found = sum(
            n for state, n in totals.counts.items() if wanted.states is None or state in wanted.states
        )
        if found > PAGE:
            return CountInfo(matching=found, exact=False)
    return await _looked_through(engine, wanted, min(most, FOUND))


async def _looked_through(engine: Engine, wanted: Filter, most: int) -> CountInfo:
    number, after = 0, None
    for _ in range(PAGES):
        page = await internal_jobs.find_page(engine, wanted, min(PAGE, most + 1 - number), after)
        number, after = number + len(page.jobs), page.rest
        if after is None or number > most:
            break
    return CountInfo(matching=min(number, most), exact=after is None and number <= most)
