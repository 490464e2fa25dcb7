"""Real requests to the examples of web applications."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headgate import App
from tests.frameworks.conftest import EMBEDDED, Site, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def test_a_request_is_accepted_and_its_job_followed(site: Site):
    answer = site.client.post("/images/cat.png")
    assert answer.status_code == 202
    where = answer.headers["Location"]
    assert where.endswith(f"/jobs/{answer.json()['id']}")
    job = eventually(
        lambda: (shown := site.client.get(where).json())["state"] == "succeeded" and shown, "the job's end"
    )
    assert (job["result"], job["args"]) == ("small-cat.png", {"image": "cat.png"})


def test_a_request_may_wait_for_the_result(site: Site):
    answer = site.client.post("/images/dog.png/now")
    assert (answer.status_code, answer.json()) == (200, {"result": "small-dog.png"})


def test_a_request_that_has_waited_long_enough_names_the_job(site: Site):
    answer = site.client.post("/images/elk.png/now", params={"seconds": 0.05})
    assert answer.status_code == 202
    assert site.client.get(answer.headers["Location"]).status_code == 200


def test_a_job_that_is_not_there_is_not_found(site: Site):
    assert site.client.get("/jobs/none").status_code == 404


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_server_that_is_stopped_lets_its_jobs_finish(name: str, tmp_path: Path):
    with running(name, tmp_path) as site:
        ids = [site.client.post(f"/images/{number}").json()["id"] for number in range(5)]

        def states() -> list[str]:
            return [site.client.get(f"/jobs/{id}").json()["state"] for id in ids]

        eventually(lambda: states().count("running") == 2, "two jobs to run")
        site.stop()
        with App(site.url) as app:
            left = [str(app.handle(id).status_sync()) for id in ids]
            assert app.audit_sync().ok
            assert app.workers_sync() == []
    assert set(left) <= {"succeeded", "ready", "waiting"}
    assert left.count("succeeded") >= 2
