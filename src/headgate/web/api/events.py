"""Server-sent events: how a store stands, and how one job goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

import msgspec
from starlette.responses import StreamingResponse

from headgate.errors import JobNotFound
from headgate.web.api.shown import update_shown
from headgate.web.events import Event
from headgate.web.route import EVENT_STREAM, Call, Route

SILENCE = b": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def events(call: Call) -> StreamingResponse:
    """Follow the store

    A stream of events, each whenever it differs: `totals`, `queues`, `limits` (the tightest keys) and `workers`, as the
    operations of these names answer, counting no further than 10,000; `unavailable` when the store cannot be read, and
    `available` when it can be again. A stream ends after an hour, to be opened again.
    """
    streams = call.streams
    streams.refuse_if_full()
    return _stream(streams.counted(_told(streams.broadcaster.listen())))


async def job_events(call: Call) -> StreamingResponse:
    """Follow one job

    A stream of `job` events: its state, attempt, progress and last error, until it has ended.
    """
    handle = await call.app.job(call.path["id"])
    call.streams.refuse_if_full()
    redacts = call.settings.redact is not None

    async def told() -> AsyncGenerator[bytes]:
        with suppress(JobNotFound):  # deleted meanwhile: there is nothing more to tell
            async for update in handle.stream():
                info = await handle.info() if redacts else None
                shown = update_shown(update, info, call.who, call.settings)
                yield Event("job", msgspec.json.encode(shown)).wire

    return _stream(call.streams.counted(told()))


async def _told(events: AsyncIterator[Event | None]) -> AsyncGenerator[bytes]:
    async for event in events:
        yield SILENCE if event is None else event.wire


def _stream(body: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(body, media_type=EVENT_STREAM, headers=HEADERS)


ROUTES = (
    Route("GET", "/events", events, right="look", tag="Events", media_type=EVENT_STREAM),
    Route(
        "GET", "/jobs/{id:path}/events", job_events, right="look", tag="Events",
        problems=("not-found",), media_type=EVENT_STREAM,
    ),
)  # fmt: skip
