"""Litestar with a worker inside: 202 and a status route, or the result at once.

uvicorn web_litestar:web
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Request, Response, get, post
from litestar.di import Provide
from litestar.exceptions import NotFoundException

from headgate import App, JobHandle, JobNotFound

jobs = App()  # HEADGATE_URL, else sqlite:///headgate.db


@jobs.task(max_concurrent=2)
async def resize(image: str) -> str:
    await asyncio.sleep(0.3)
    return f"small-{image}"


@asynccontextmanager
async def lifespan(web: Litestar) -> AsyncGenerator[None]:
    async with jobs, jobs.worker(concurrency=10):
        yield


async def the_jobs() -> App:
    return jobs


def accepted(job: JobHandle[str], request: Request[Any, Any, Any]) -> Response[dict[str, str]]:
    location = request.app.route_reverse("status", id=job.id)
    return Response({"id": job.id}, status_code=202, headers={"Location": location})


@post("/images/{name:str}", status_code=202)
async def accept(name: str, request: Request[Any, Any, Any]) -> Response[dict[str, str]]:
    return accepted(await resize.enqueue(name), request)


@post("/images/{name:str}/now", status_code=200)
async def wait(name: str, request: Request[Any, Any, Any], seconds: float = 10) -> Response[dict[str, str]]:
    job = await resize.enqueue(name)
    try:
        return Response({"result": await job.result(timeout=min(seconds, 30))})
    except TimeoutError:  # the job goes on
        return accepted(job, request)


@get("/jobs/{id:str}", name="status")
async def status(id: str, jobs: App) -> dict[str, Any]:
    try:
        return (await jobs.handle(id).info()).to_dict()
    except JobNotFound:
        raise NotFoundException("there is no such job") from None


web = Litestar([accept, wait, status], dependencies={"jobs": Provide(the_jobs)}, lifespan=[lifespan])
