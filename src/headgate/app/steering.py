"""Steering many jobs: one verb, batch after batch, and what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Literal

from headgate.app import internal_jobs
from headgate.app.handle import ALLOWED, refusal
from headgate.app.info import Info
from headgate.engine.contract import Engine, Filter, Verdict
from headgate.errors import ConfigError
from headgate.job import ENDED, PENDING, JobState

JOBS_PER_STEP = 500

Verb = Literal["cancel", "restart", "expedite", "delete"]

FITTING: dict[Verb, frozenset[JobState]] = {
    "cancel": PENDING | {JobState.RUNNING},
    "restart": frozenset({JobState.FAILED, JobState.CANCELLED}),
    "expedite": frozenset({JobState.SCHEDULED}),
    "delete": ENDED,
}


class Changed(Info, frozen=True):
    """What a verb did to many jobs: how many it changed, and which refused it in which state.

    `asked` are those among `done` that run and were only asked to stop; none but `cancel` has any.
    """

    done: int
    refused: tuple[Verdict, ...] = ()
    asked: int = 0


def fitting_states(verb: Verb, states: Iterable[JobState] | None) -> tuple[JobState, ...]:
    """Those of a filter's states in which a job can be steered so. Naming only others is a mistake."""
    asked = FITTING[verb] if states is None else frozenset(states)
    if asked and not asked & FITTING[verb]:
        names = ", ".join(sorted(asked))
        raise ConfigError(f"cannot {verb} jobs that are {names}; they must be {ALLOWED[verb]}")
    return tuple(sorted(asked & FITTING[verb]))


async def steer_one(engine: Engine, verb: Verb, id: str) -> Changed:
    """Steer one job; raises why it refused."""
    verdict: Verdict = (await getattr(engine, verb)([id]))[0]
    if not verdict.done:
        raise refusal(verb, verdict)
    return Changed(1, asked=_asked([verdict]))


async def steer_ids(engine: Engine, verb: Verb, ids: list[str]) -> Changed:
    """Steer these jobs, batch after batch; those that refuse are reported."""
    return await _steer(engine, verb, _batches(ids))


async def steer_matching(engine: Engine, verb: Verb, wanted: Filter) -> Changed:
    """Steer all jobs that match, page after page."""
    pages = internal_jobs.pages(engine, wanted, JOBS_PER_STEP, gone=verb == "delete")
    return await _steer(engine, verb, pages)


async def _steer(engine: Engine, verb: Verb, batches: AsyncIterator[list[str]]) -> Changed:
    done, refused, asked = 0, list[Verdict](), 0
    async for ids in batches:
        verdicts: list[Verdict] = await getattr(engine, verb)(ids)
        done += sum(verdict.done for verdict in verdicts)
        refused += [verdict for verdict in verdicts if not verdict.done]
        asked += _asked(verdicts)
    return Changed(done, tuple(refused), asked)


def _asked(verdicts: Iterable[Verdict]) -> int:
    """How many run on: of all verbs only `cancel` leaves a job running."""
    return sum(verdict.done and verdict.state is JobState.RUNNING for verdict in verdicts)


async def _batches(ids: list[str]) -> AsyncIterator[list[str]]:
    for start in range(0, len(ids), JOBS_PER_STEP):
        yield ids[start : start + JOBS_PER_STEP]
