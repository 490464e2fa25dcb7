"""Testing tasks: a store in memory, a clock that the test moves, and no sleeping. Run it with pytest.

`headgate_app` and `headgate_clock` come with Headgate's pytest plugin; at the end of each test the store is audited.
"""

from typing import Any

from headgate import App, ConcurrencyLimit, JobState, Retry

app = App("sqlite:///jobs.db")  # what the project really uses; the tests never touch it
sent: list[str] = []


@app.task(limits=[ConcurrencyLimit(1, scope="mail")], retry=Retry(attempts=3, delay=60, jitter=0))
async def remind(who: str) -> str:
    sent.append(who)
    if sent.count(who) == 1:
        raise ConnectionError("mail server is down")
    return f"reminded {who}"


async def test_a_reminder_goes_out_a_day_later_and_is_retried(headgate_app: Any, headgate_clock: Any) -> None:
    headgate_app(app, clock=headgate_clock)
    job = await remind.options(delay=86_400).enqueue("ada")
    await app.run_until_idle()
    assert await job.status() is JobState.SCHEDULED

    headgate_clock.advance(86_400)
    await app.run_until_idle()
    assert sent == ["ada"]
    assert "mail server is down" in str(await job.explain())

    headgate_clock.advance(60)
    await app.run_until_idle()
    assert await job.result(timeout=1) == "reminded ada"


async def test_an_operator_closes_the_mail_limit(headgate_app: Any) -> None:
    headgate_app(app)
    await app.set_limit("mail", 0, by="ops", why="maintenance")
    job = await remind.enqueue("grace")
    await app.run_until_idle()
    assert await job.status() is JobState.WAITING
    assert "maintenance" in str(await job.explain())
