from __future__ import annotations

from headgate.engine.contract import Succeeded
from headgate.hooks.listeners import Listeners
from headgate.worker.job_events import JobEvents
from tests.worker.stand_in import attempt


def test_every_end_of_an_unconfirmed_report_is_told_as_such():
    """What the store answered is not known: the event says so instead of guessing."""
    listeners, events = Listeners(), []
    listeners.add(["succeeded", "lost"], events.append)
    jobs = JobEvents(listeners)
    for id in "abc":
        jobs.ended(attempt(id, "work"), "w", Succeeded(id, 1), None, 0.5)
    assert events == []
    jobs.acknowledged([Succeeded("a", 1)], [("a", 1)])
    jobs.in_doubt({("c", 1)})
    assert [(event.job, event.name, event.confirmed) for event in events] == [
        ("a", "lost", True),
        ("b", "succeeded", False),
    ]
    jobs.acknowledged([Succeeded("c", 1)], [])
    assert (events[-1].job, events[-1].confirmed) == ("c", True)
