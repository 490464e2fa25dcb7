"""Flask with workers beside it: 202 and a status route, or the result at once.

    flask --app web_flask:web run
    headgate worker web_flask:jobs

A WSGI server forks, recycles and blocks its processes, so the work is done by processes of its own. Routes use the
sync twins. Each process opens the store on first use, also after a fork.
"""

import time
from typing import Any

from flask import Flask, request, url_for

from headgate import App, JobHandle, JobNotFound

jobs = App()  # HEADGATE_URL, else sqlite:///headgate.db
web = Flask(__name__)


@jobs.task(max_concurrent=2)
def resize(image: str) -> str:
    time.sleep(0.3)
    return f"small-{image}"


def accepted(job: JobHandle[str]) -> tuple[Any, ...]:
    return {"id": job.id}, 202, {"Location": url_for("status", id=job.id)}


@web.post("/images/<name>")
def accept(name: str) -> tuple[Any, ...]:
    return accepted(resize.enqueue_sync(name))


@web.post("/images/<name>/now")
def wait(name: str) -> Any:
    job = resize.enqueue_sync(name)
    try:
        return {"result": job.result_sync(timeout=min(request.args.get("seconds", 10, float), 30))}
    except TimeoutError:  # the job goes on
        return accepted(job)


@web.get("/jobs/<id>")
def status(id: str) -> Any:
    try:
        return jobs.handle(id).info_sync().to_dict()
    except JobNotFound:
        return {"error": "there is no such job"}, 404
