"""For testing tasks: a clock that tests move, an app on a store of its own, a pytest fixture.

    from headgate.testing import Clock, use_store

    async def test_a_reminder_goes_out_after_a_day():
        clock = Clock()
        with use_store(app, clock=clock):                     # memory:// instead of what the app is configured with
            job = await remind.options(delay=86_400).enqueue("ada")
            clock.advance(86_400)
            await app.run_until_idle()
            assert await job.result() == "reminded ada"

With pytest, the fixture `headgate_app` does the same and audits the store at the end of the test; see
`headgate.testing.plugin`.
"""

from __future__ import annotations

from headgate.testing.assertions import assert_enqueued, assert_not_enqueued
from headgate.testing.clock import Clock
from headgate.testing.current import FakeJob, fake_job
from headgate.testing.store import use_store

__all__ = ["Clock", "FakeJob", "assert_enqueued", "assert_not_enqueued", "fake_job", "use_store"]
