"""One job: why it is where it is, its keys, its attempts on one line of time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote

import msgspec

from headgate.app.explain import Explanation
from headgate.app.info import JobInfo
from headgate.app.store_info import KeyInfo
from headgate.clock import span
from headgate.job import JobState
from headgate.web.api.shown import sentence
from headgate.web.pages.view import Context, View

PACE = 15 * 60
"""Seconds of history from which a job's start is estimated."""
INSTANT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
"""A time as explanations write it."""
NARROWEST = 0.8
"""Percent of the line that the shortest attempt takes, so that it can be seen."""


async def job(view: View) -> Context:
    """One job."""
    handle = view.app.handle(view.request.path_params["id"])
    info = await handle.info()
    explained = await handle.explain()
    keys = await view.app.keys_of(info.id, holders=3)
    shown = view.shown(info)
    return {
        "title": f"{info.task} {info.id}",
        "job": shown,
        "sentence": _sentence(sentence(explained, info, view.who, view.settings), explained, info, keys),
        "pace": await _pace(view, info, explained, keys),
        "lights": [_light(info, key) for key in keys],
        "line": _line(shown, await view.readings.now()),
        "bar": _bar(shown.progress),
        "events": f"/jobs/{quote(info.id, safe='')}/events" if not info.state.ended else "",
    }


# ── the sentence ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _sentence(told: str, explained: Explanation, info: JobInfo, keys: list[KeyInfo]) -> list[Any]:
    """What `explain` says, without the job's own name, in pieces: texts, and what can be opened or is a time."""
    text = "It " + told.removeprefix(f"Job {info.id} ({info.task}) ")
    links: dict[str, dict[str, Any]] = {id: {"kind": "job", "text": id} for id in explained.holders}
    if explained.key:
        tenant = next((one.limit.tenant for one in keys if one.limit.key == explained.key), None)
        links[explained.key] = {"kind": "key", "text": explained.key, "tenant": tenant}
    names = "|".join(re.escape(one) for one in sorted(links, key=len, reverse=True))
    pieces = re.split(f"({names}|{INSTANT})" if names else f"({INSTANT})", text)
    return [links.get(one) or _instant(one) for one in pieces]


def _instant(text: str) -> str | dict[str, Any]:
    """A time for the viewer's zone, or the text as it is."""
    if not re.fullmatch(INSTANT, text):
        return text
    return {"kind": "time", "at": datetime.fromisoformat(text.removesuffix(" UTC")).replace(tzinfo=UTC)}


async def _pace(view: View, info: JobInfo, explained: Explanation, keys: list[KeyInfo]) -> str:
    """About when a waiting job starts, if what comes before it goes on as it did lately; empty if that is unknown."""
    key = next((one for one in keys if one.limit.key == explained.key), None)
    if info.state is not JobState.WAITING or key is None or not explained.place or not key.limit.max:
        return ""
    if key.limit.kind == "rate":
        seconds = explained.place * (key.limit.per or 0) / key.limit.max
    else:
        done = await view.app.history(PACE, step=PACE, task=info.task)
        ended = sum(one.succeeded + one.failed + one.retried for one in done)
        seconds = explained.place * sum(one.ran for one in done) / max(ended, 1) / key.limit.max
    return span(seconds) if seconds >= 1 else ""


# ── its keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _light(info: JobInfo, key: KeyInfo) -> dict[str, Any]:
    """Whether a key would admit the job, in a colour, a shape and words."""
    limit = key.limit
    mine = info.state is JobState.RUNNING and limit.kind != "rate"
    waits = info.state is JobState.WAITING and info.waiting_on == limit.key
    kept = any(one.job == info.id and one.reserved for one in key.holders)
    goes = (mine or kept or key.has_room) and not waits
    return {"key": key, "goes": goes, "waits": waits, "words": _words(key, mine=mine, kept=kept, waits=waits)}


def _words(key: KeyInfo, *, mine: bool, kept: bool, waits: bool) -> str:
    if mine:
        return "held by this job"
    if kept:
        return "kept for this job"
    if key.limit.max == 0:
        return "closed"
    if key.free is None:
        return "no limit"
    if key.limit.kind == "rate":
        return "used up" if waits or not key.has_room else f"{key.free:,} left"
    if not key.has_room:
        return "full"
    return "promised to others" if waits else f"{key.free:,} free"


# ── its attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Stretch(msgspec.Struct, frozen=True):
    """A piece of the line, in percent of it."""

    kind: str
    left: float
    width: float


def _line(job: JobInfo, now: datetime) -> list[dict[str, Any]]:
    """A row for each attempt, and one for what comes next, on one line of time from the first start to now."""
    rows: list[dict[str, Any]] = [
        _row(one.number, one.outcome, one.started_at, one.ended_at, one.worker, one.error)
        for one in job.attempts
    ]
    if job.state is JobState.RUNNING and job.started_at is not None:
        rows.append(_row(job.attempt, "running", job.started_at, now, job.worker or "", None))
    elif not job.state.ended:
        begins = min(job.due, now) if not job.attempts else max(job.attempts[-1].ended_at, min(job.due, now))
        rows.append(_row(job.attempt + 1, job.state.value, begins, now, "", None))
    if not rows:
        return []
    first = rows[0]["begins"]
    whole = max((rows[-1]["ends"] - first).total_seconds(), 0.001)
    for row in rows:
        row["stretch"] = _stretch(row, first, whole)
    return rows


def _row(
    number: int, kind: str, begins: datetime, ends: datetime, worker: str, error: str | None
) -> dict[str, Any]:
    return {
        "number": number, "kind": kind, "begins": begins, "ends": max(begins, ends), "worker": worker, "error": error,
        "took": span(max(0.0, (ends - begins).total_seconds())),
    }  # fmt: skip


def _stretch(row: dict[str, Any], first: datetime, whole: float) -> Stretch:
    width = max(NARROWEST, 100 * (row["ends"] - row["begins"]).total_seconds() / whole)
    left = 100 * (row["begins"] - first).total_seconds() / whole
    return Stretch(row["kind"], round(min(left, 100 - width), 2), round(width, 2))


# ── its progress ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _bar(progress: Any) -> float | None:
    """How much is done, from 0 to 1, where the progress says so: a share, a percentage, or so many of so many."""
    if _is_number(progress):
        return _share(progress, 1 if progress <= 1 else 100)
    if not isinstance(progress, dict):
        return None
    told = cast("dict[str, Any]", progress)
    for done in ("done", "current", "completed"):
        if _is_number(told.get(done)) and _is_number(told.get("total")):
            return _share(told[done], told["total"])
    return _share(told["percent"], 100) if _is_number(told.get("percent")) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share(done: float, total: float) -> float | None:
    return min(1.0, max(0.0, done / total)) if total > 0 else None
