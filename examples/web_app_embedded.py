"""A worker inside a web app: a request enqueues and returns at once, the same event loop does the work.

The server is a dozen lines of asyncio that stand for any framework; where there is a lifespan, `async with app,
app.worker()` goes there.
"""

import asyncio

from headgate import App, JobNotFound

app = App("memory://")


@app.task(max_concurrent=2)
async def resize(image: str) -> str:
    await asyncio.sleep(0.05)
    return f"small-{image}"


async def answer(path: str) -> str:
    match path.strip("/").split("/"):
        case ["resize", image]:
            return (await resize.enqueue(image)).id
        case ["jobs", id]:
            try:
                job = await (await app.job(id)).info()
            except JobNotFound:
                return "404"
            return f"{job.state} {job.result}"
        case _:
            return "404"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    path = (await reader.readline()).decode().strip()
    writer.write((await answer(path)).encode())
    writer.close()


async def get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{path}\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


async def main() -> None:
    async with app, app.worker(concurrency=10):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        id = await get(port, "/resize/cat.png")
        print("accepted:", id)
        await app.handle(id).result(timeout=10)
        print("then:", await get(port, f"/jobs/{id}"))
        server.close()


if __name__ == "__main__":
    asyncio.run(main())
