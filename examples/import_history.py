"""Moving from another queue: jobs come with their attempts, and go on where they were. Bad records stop no others."""

import asyncio
from typing import Any

from headgate import App, Retry

app = App("memory://")


@app.task(retry=Retry(attempts=3, delay=0))
async def send(to: str) -> str:
    return f"sent to {to}"


def attempt(outcome: str, minute: int) -> dict[str, Any]:
    at = f"2026-01-31T08:{minute:02}"
    return {"outcome": outcome, "started_at": f"{at}:00Z", "ended_at": f"{at}:05Z"}


RECORDS: list[dict[str, Any]] = [
    {"id": "new", "task": "send", "args": {"to": "ada"}},
    {"id": "done", "task": "send", "args": {"to": "grace"}, "attempts": [attempt("succeeded", 1)]},
    {"id": "half", "task": "send", "args": {"to": "jean"}, "attempts": [attempt("failed", 1)]},
    {
        "id": "over",
        "task": "send",
        "args": {"to": "mary"},
        "attempts": [attempt("failed", n) for n in (1, 2, 3)],
    },
    {"id": "bad", "task": "send", "args": {"to": 42}},
]


async def main() -> None:
    async with app:
        for result in await app.import_jobs(RECORDS):
            print(f"{result.id}: {result.refused or result.state}")
        await app.run_until_idle()
        half = await app.handle("half").info()
        print(f"half: {half.state} on attempt {half.attempt}, {half.result!r}")


if __name__ == "__main__":
    asyncio.run(main())
