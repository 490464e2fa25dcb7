"""An independent judge of starts: counts who runs, knows nothing of waiting, offers or reservations."""

from __future__ import annotations

from headgate.engine.contract import Limit, Override, Snapshot
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.model.vocabulary import WINDOW

Scope = tuple[str, str | None, str | None]


class Judge:
    """Says whether a start was allowed: no more running per key than its number, no window too full."""

    def __init__(self) -> None:
        self.declared: dict[str, Limit] = {}
        self.overridden: dict[Scope, Override] = {}
        self.computed: dict[str, int] = {}
        self.running: dict[str, tuple[int, dict[str, int]]] = {}
        self.window: dict[str, list[tuple[int, int]]] = {}

    def number(self, ident: str) -> int | None:
        """The number in force for a concurrency key."""
        key = Key.of(ident)
        for scope in (
            (key.name, key.value, key.tenant or None),
            (key.name, key.value, None),
            (key.name, None, key.tenant or None),
            (key.name, None, None),
        ):
            if scope in self.overridden:
                return self.overridden[scope].max
        if ident in self.computed and self.declared[key.name].kind == "floating":
            return self.computed[ident]
        limit = self.declared.get(key.name)
        return limit.max if limit else None

    def forget(self, now: int) -> None:
        """Overrides that ran out, as a sweep does."""
        for scope, override in list(self.overridden.items()):
            if override.until is not None and override.until <= now:
                del self.overridden[scope]

    def keep_running(self, snapshot: Snapshot) -> None:
        """Forget attempts that are over."""
        live = {(view.id, view.attempt) for view in snapshot.jobs if view.state is JobState.RUNNING}
        self.running = {id: entry for id, entry in self.running.items() if (id, entry[0]) in live}

    def start(self, job: NewJob, attempt: int, now: int) -> None:
        """A job starts: it takes its own keys and the caps of its task and queue."""
        caps = {Key(name).ident for name in (f"task:{job.task}", f"queue:{job.queue}") if self._is_cap(name)}
        own = {use.key: use.units for use in job.uses if use.key[0] == "c"}
        self.running[job.id] = (attempt, dict.fromkeys(caps, 1) | own)
        for use in job.uses:
            if Key.of(use.key).name == WINDOW.name:
                self._spend(use, now)

    def _is_cap(self, name: str) -> bool:
        limit = self.declared.get(name)
        bounds_the_backlog = limit is not None and limit.max is None and limit.max_waiting is not None
        return (limit is not None and not bounds_the_backlog) or (name, None, None) in self.overridden

    def judge(self, started: list[str]) -> None:
        """No key of the jobs that just started has more running than its number."""
        for id in started:
            for key in self.running[id][1]:
                most = self.number(key)
                if most is not None and not self._is_learnt(key):
                    running = {other: keys[key] for other, (_, keys) in self.running.items() if key in keys}
                    units = sum(running.values())
                    assert units <= most, f"{running} run at once on {key}, which allows {most}"

    def _is_learnt(self, ident: str) -> bool:
        """Whether a key's number comes from its jobs: other tests judge that."""
        limit = self.declared.get(Key.of(ident).name)
        return limit is not None and (limit.per_key or limit.adaptive)

    def _spend(self, use: Use, now: int) -> None:
        spent = self.window.setdefault(use.key, [])
        spent.append((now, use.units))
        recent = sum(units for at, units in spent if at > now - WINDOW.period)
        assert WINDOW.max is not None
        assert recent <= WINDOW.max, f"{recent} starts within one window of {use.key}"
