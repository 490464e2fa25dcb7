"""Starlette with a worker inside: 202 and a status route, or the result at once.

    uvicorn web_starlette:web

What the lifespan yields is the state of each request, so that routes need no global.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headgate import App, JobHandle, JobNotFound

jobs = App()  # HEADGATE_URL, else sqlite:///headgate.db


@jobs.task(max_concurrent=2)
async def resize(image: str) -> str:
    await asyncio.sleep(0.3)
    return f"small-{image}"


@asynccontextmanager
async def lifespan(web: Starlette) -> AsyncGenerator[dict[str, App]]:
    async with jobs, jobs.worker(concurrency=10):
        yield {"jobs": jobs}


def accepted(job: JobHandle[str], request: Request) -> JSONResponse:
    location = str(request.url_for("status", id=job.id))
    return JSONResponse({"id": job.id}, 202, {"Location": location})


async def accept(request: Request) -> JSONResponse:
    return accepted(await resize.enqueue(request.path_params["name"]), request)


async def wait(request: Request) -> JSONResponse:
    seconds = float(request.query_params.get("seconds", 10))
    job = await resize.enqueue(request.path_params["name"])
    try:
        return JSONResponse({"result": await job.result(timeout=min(seconds, 30))})
    except TimeoutError:  # the job goes on
        return accepted(job, request)


async def status(request: Request) -> JSONResponse:
    try:
        job = await request.state.jobs.handle(request.path_params["id"]).info()
    except JobNotFound:
        raise HTTPException(404, "there is no such job") from None
    return JSONResponse(job.to_dict())


web = Starlette(
    routes=[
        Route("/images/{name}", accept, methods=["POST"]),
        Route("/images/{name}/now", wait, methods=["POST"]),
        Route("/jobs/{id}", status),
    ],
    lifespan=lifespan,
)
