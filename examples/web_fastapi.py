"""FastAPI with a worker inside: 202 and a status route, or the result at once.

    uvicorn web_fastapi:web

The worker lives in the lifespan: a server that stops waits for what runs. Without `jobs.worker()` the web process only
enqueues, and `headgate worker web_fastapi:jobs` does the work.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response

from headgate import App, JobHandle, JobInfo, JobNotFound

jobs = App()  # HEADGATE_URL, else sqlite:///headgate.db


@jobs.task(max_concurrent=2)
async def resize(image: str) -> str:
    await asyncio.sleep(0.3)
    return f"small-{image}"


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncGenerator[None]:
    async with jobs, jobs.worker(concurrency=10):
        yield


web = FastAPI(lifespan=lifespan)


def the_jobs() -> App:
    return jobs


Jobs = Annotated[App, Depends(the_jobs)]


def accepted(job: JobHandle[str], request: Request, response: Response) -> dict[str, str]:
    response.status_code = 202
    response.headers["Location"] = str(request.url_for("status", id=job.id))
    return {"id": job.id}


@web.post("/images/{name}")
async def accept(name: str, request: Request, response: Response) -> dict[str, str]:
    return accepted(await resize.enqueue(name), request, response)


@web.post("/images/{name}/now")
async def wait(name: str, request: Request, response: Response, seconds: float = 10) -> dict[str, str]:
    job = await resize.enqueue(name)
    try:
        return {"result": await job.result(timeout=min(seconds, 30))}
    except TimeoutError:  # the job goes on
        return accepted(job, request, response)


@web.get("/jobs/{id}")
async def status(id: str, jobs: Jobs) -> JobInfo:
    try:
        return await jobs.handle(id).info()
    except JobNotFound:
        raise HTTPException(404, "there is no such job") from None
