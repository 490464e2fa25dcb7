"""Cancel, restart, expedite, delete: by ids, by filters, and with what they refuse."""

from __future__ import annotations

import asyncio

import pytest

from headgate import App
from tests.support.command_line import Headgate, Outcome


def states(store: Headgate) -> dict[str, str]:
    return {job["id"]: job["state"] for job in store("jobs", "--json").documents}


def test_a_job_goes_through_all_verbs(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada", "--delay", "1h")
    assert store("expedite", id).out == "1 job expedited.\n"
    assert store("cancel", id).out == "1 job cancelled.\n"
    assert store("restart", id).out == "1 job restarted.\n"
    store.work()
    assert store("delete", id).out == "1 job deleted.\n"
    assert states(store) == {}


@pytest.mark.parametrize("verb", ["restart", "expedite", "delete"])
def test_the_wrong_state_is_refused_by_name(store: Headgate, verb: str) -> None:
    id = store.enqueue("send", "to=ada")
    outcome = store(verb, id)
    assert outcome.code == 1
    assert outcome.err.startswith(f"headgate: cannot {verb} job '{id}': it is ready, not ")
    assert states(store) == {id: "ready"}


def test_one_refusal_does_not_stop_the_others(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada")
    outcome = store("cancel", "nobody", id)
    assert outcome.code == 1
    assert "no job 'nobody'" in outcome.err
    assert outcome.out == "1 job cancelled.\n"
    assert states(store) == {id: "cancelled"}


def test_the_json_report_has_a_documented_shape(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada")
    outcome = store("cancel", "nobody", id, "--json")
    assert outcome.code == 1
    report = outcome.document
    assert (report["verb"], report["done"]) == ("cancel", 1)
    (refused,) = report["refused"]
    assert (refused["id"], refused["state"]) == ("nobody", None)
    assert "there is no job" in refused["error"]


def test_ids_can_come_from_a_pipe(store: Headgate) -> None:
    ids = [store.enqueue("send", "to=a") for _ in range(3)]
    outcome = store("cancel", "-", input="\n".join(ids[:2]) + "\n")
    assert outcome.out == "2 jobs cancelled.\n"
    assert states(store)[ids[2]] == "ready"


def test_a_filter_takes_what_matches_and_fits(store: Headgate) -> None:
    keep = store.enqueue("report")
    for _ in range(3):
        store.enqueue("send", "to=a")
    assert store("cancel", "--queue", "email", "--dry-run").out == "3 jobs would be cancelled.\n"
    assert store("cancel", "--queue", "email", "--dry-run", "--json").document == {
        "verb": "cancel",
        "matching": 3,
    }
    assert store("cancel", "--queue", "email", "--state", "waiting").out == "2 jobs cancelled.\n"
    assert store("cancel", "--queue", "email").out == "1 job cancelled.\n"
    assert store("cancel", "--queue", "email").out == "0 jobs cancelled.\n"
    assert store("delete", "--state", "cancelled").out == "3 jobs deleted.\n"
    assert list(states(store)) == [keep]


@pytest.mark.parametrize("option", ["--queue", "--task", "--tenant", "--limit", "--state"])
def test_an_empty_value_does_not_widen_a_filter(store: Headgate, option: str) -> None:
    id = store.enqueue("send", "to=a")
    for words in (["cancel", option, ""], ["cancel", "--state", "ready", option, ""], ["jobs", option, ""]):
        outcome = store(*words)
        assert outcome.code == 2, words
        assert "''" in outcome.err
    assert states(store) == {id: "ready"}


def test_an_unknown_state_beside_a_known_one_is_refused(store: Headgate) -> None:
    id = store.enqueue("send", "to=a")
    outcome = store("cancel", "--state", "ready", "--state", "stuck")
    assert outcome.code == 2
    assert "the states are scheduled" in outcome.err
    assert states(store) == {id: "ready"}


def test_no_ids_from_a_pipe_change_nothing(store: Headgate) -> None:
    id = store.enqueue("send", "to=a")
    assert store("cancel", "-", input="\n").out == "0 jobs cancelled.\n"
    assert states(store) == {id: "ready"}


def test_a_filter_by_key_finds_the_jobs_of_every_tenant(store: Headgate) -> None:
    for tenant in ("acme", "acme", "zeta", "zeta"):
        store.enqueue("send", "to=a", "customer=42", "--tenant", tenant)
    assert store("jobs", "--limit", "customer=42", "--count").out == "2\n"
    assert store("jobs", "--limit", "customer", "--count").out == "2\n"
    assert store("cancel", "--limit", "customer=42", "--tenant", "acme").out == "1 job cancelled.\n"
    assert store("cancel", "--limit", "customer=42").out == "1 job cancelled.\n"
    assert store("cancel", "--limit", "customer=43").out == "0 jobs cancelled.\n"


def test_a_filter_by_key_takes_those_that_wait_on_it(store: Headgate) -> None:
    store.enqueue("send", "to=a", "customer=1")
    store.enqueue("send", "to=b", "customer=1")
    store.enqueue("send", "to=c", "customer=2")
    assert store("cancel", "--limit", "customer=1").out == "1 job cancelled.\n"


def test_more_jobs_than_one_batch_are_taken(store: Headgate) -> None:
    from headgate.testing import use_store
    from tests.support.cli_shop import app, send

    with use_store(app, store.url):
        app.enqueue_many_sync(send.job("a", customer=n) for n in range(1100))
    assert store("cancel", "--task", "send").out == "1,100 jobs cancelled.\n"
    assert store("delete", "--task", "send").out == "1,100 jobs deleted.\n"


async def test_what_runs_is_told_from_what_a_cancel_ended(store: Headgate) -> None:
    app = App(store.url)
    started = asyncio.Semaphore(0)

    @app.task
    async def hang() -> None:
        started.release()
        await asyncio.Event().wait()

    async def cancel(*words: str) -> Outcome:
        return await asyncio.to_thread(store, "cancel", *words)

    async with app, app.worker():
        jobs = [job.id for job in await app.enqueue_many(hang.job() for _ in range(4))]
        later = await hang.options(delay=3600).enqueue()
        for _ in jobs:
            await started.acquire()
        assert (await cancel(jobs[0])).out == "1 running job was asked to stop.\n"
        assert (await cancel(jobs[1], later.id, jobs[2])).out == (
            "1 job cancelled; 2 running jobs were asked to stop.\n"
        )
        assert (await cancel(jobs[3], "--json")).document == {"verb": "cancel", "done": 1, "refused": []}


def test_a_filter_by_states_that_never_fit_is_a_usage_error(store: Headgate) -> None:
    outcome = store("cancel", "--state", "failed")
    assert outcome.code == 2
    assert "they must be scheduled, ready, waiting or running" in outcome.err


def test_an_unknown_state_is_a_usage_error(store: Headgate) -> None:
    assert store("cancel", "--state", "asleep").code == 2


@pytest.mark.parametrize("words", [[], ["x", "--queue", "email"]])
def test_either_ids_or_a_filter_is_needed(store: Headgate, words: list[str]) -> None:
    outcome = store("delete", *words)
    assert outcome.code == 2
    assert "either ids or a filter" in outcome.err
