"""What operators and the ticker do, once for the engines whose transactions are in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate.engine.contract import NewArguments, Override, Verdict
from headgate.engine.rules.in_force import Scope, may_be_overridden
from headgate.engine.rules.stored import Stored
from headgate.engine.rules.transitions import Transitions
from headgate.errors import ConfigError
from headgate.job import ENDED, PENDING, JobState, NewJob


class Steering(NamedTuple):
    """A verb on single jobs: the states in which it is possible, and what it does."""

    states: frozenset[JobState]
    move: Callable[[Transitions, Stored], None]


def _remove(transitions: Transitions, job: Stored) -> None:
    transitions.remove(job)


CANCEL = Steering(frozenset({*PENDING, JobState.RUNNING}), Transitions.cancel)
RESTART = Steering(frozenset({JobState.FAILED, JobState.CANCELLED}), Transitions.restart)
EXPEDITE = Steering(frozenset({JobState.SCHEDULED}), Transitions.expedite)
DELETE = Steering(frozenset(ENDED), _remove)


def steer(transitions: Transitions, steering: Steering, ids: Sequence[str]) -> list[Verdict]:
    """Do it to each job whose state allows it."""
    return [_steer(transitions, steering, id) for id in ids]


def restart(transitions: Transitions, ids: Sequence[str], arguments: NewArguments | None) -> list[Verdict]:
    """Restart each job whose state allows it, with the same new arguments."""
    if arguments is None:
        return steer(transitions, RESTART, ids)
    transitions.book.check_uses(arguments.uses)

    def move(transitions: Transitions, job: Stored) -> None:
        transitions.restart(job, arguments)

    return steer(transitions, Steering(RESTART.states, move), ids)


def _steer(transitions: Transitions, steering: Steering, id: str) -> Verdict:
    job = transitions.job(id)
    if job is None or job.state not in steering.states:
        return Verdict(id, False, job and job.state)
    if steering.states is RESTART.states and not transitions.may_restart(job):
        return Verdict(id, False, job.state)
    steering.move(transitions, job)
    return Verdict(id, True, job.state)


def override(transitions: Transitions, override: Override) -> None:
    """An operator's number for a limit that there is."""
    if not may_be_overridden(transitions.book, override.name):
        raise ConfigError(f"no limit is named {override.name!r}; see `headgate limits` for those there are")
    transitions.set_override((override.name, override.value, override.tenant), override)


def clear_override(transitions: Transitions, scope: Scope) -> bool:
    """Take an override back; returns whether there was one."""
    there = scope in transitions.book.overrides
    if there:
        transitions.set_override(scope, None)
    return there


def tick(transitions: Transitions, name: str, seen: int | None, at: int, jobs: Sequence[NewJob]) -> bool:
    """Enqueue what is due of a periodic task, unless it is paused, or another worker has done so since the
    caller looked."""
    if transitions.last_tick(name) != seen or transitions.schedule_paused(name):
        return False
    transitions.put_tick(name, at)
    taken = transitions.existing([job.id for job in jobs])
    transitions.enqueue([job for job in jobs if job.id not in taken], entering=False)
    return True


def pause_schedule(transitions: Transitions, name: str) -> bool:
    """Let a periodic task tick no more; returns whether that is new."""
    new = not transitions.schedule_paused(name)
    if new:
        transitions.put_schedule_paused(name, paused=True)
    return new


def resume_schedule(transitions: Transitions, name: str) -> bool:
    """Let it tick again, from now on; returns whether it was paused."""
    there = transitions.schedule_paused(name)
    if there:
        transitions.put_schedule_paused(name, paused=False)
        transitions.put_tick(name, transitions.now)
    return there
