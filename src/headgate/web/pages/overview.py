"""The overview: how the store stands, what is tight, what went wrong, and the curves of the last hour."""

from __future__ import annotations

from typing import Any

from headgate.app.store_info import TotalsInfo
from headgate.web.pages.charts import RANGES, Charts, chart, last_of
from headgate.web.pages.failed import failures
from headgate.web.pages.view import Context, View

TIGHTEST = 8
GROUPS = 6
HOUR = RANGES["1h"]
LIVE = ("running", "ready", "waiting", "scheduled")


async def overview(view: View) -> Context:
    """How the store stands."""
    totals = await view.readings.totals()
    reach = RANGES.get(view.asked("span"), HOUR)
    now = await view.readings.now()
    charts = Charts(await view.readings.history(reach.since, reach.step), reach, now)
    hour = Charts(await view.readings.history(HOUR.since, HOUR.step), HOUR, now)
    return {
        "tiles": [*_states(totals, list(view.readings.samples)), *_ended(hour)],
        "reach": reach,
        "reaches": list(RANGES.values()),
        **_charts(charts),
        "tight": await view.readings.tightest(TIGHTEST),
        "wrong": await failures(view, since=3600, most=GROUPS),
        "queues": await view.readings.queues(),
        "workers": await view.readings.workers(),
    }


def _states(totals: TotalsInfo, samples: list[TotalsInfo]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "state": name,
            "count": getattr(totals, name),
            "partial": name in totals.partial,
            "curve": [getattr(one, name) for one in samples],
            "path": f"/jobs?state={name}",
        }
        for name in LIVE
    ]


def _ended(hour: Charts) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{name}, 1 h",
            "state": name,
            "count": sum(hour.sums(name)),
            "partial": False,
            "curve": hour.sums(name),
            "path": path,
        }
        for name, path in (
            ("succeeded", "/jobs?state=succeeded&since=3600"),
            ("failed", "/failed?since=3600"),
        )
    ]


def _charts(charts: Charts) -> Context:
    starts, waits = charts.starts(), charts.waits()
    return {
        "charts": {
            "starts": chart(charts.times, starts, "per second"),
            "waits": chart(charts.times, waits, "seconds"),
        },
        "starts_now": last_of(starts[0]),
        "longest_now": last_of(waits[0]),
        "mean_now": last_of(waits[1]),
    }
