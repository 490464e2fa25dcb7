"""The recipe of the guide, with Sentry's own client, in a process of its own: the client patches what it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs_pages import ROOT, blocks

pytest.importorskip("sentry_sdk")

PROGRAM = """
import asyncio
import json
import sentry_sdk
from sentry_sdk.transport import Transport

sent = []


class Kept(Transport):
    def capture_envelope(self, envelope):
        if (event := envelope.get_event()) is not None:
            sent.append(event)


real_init = sentry_sdk.init
sentry_sdk.init = lambda **options: real_init(**{**options, "dsn": "https://key@sentry.invalid/1", "transport": Kept})
import sentry_jobs
from headgate import App

app = App("memory://")


@app.task
async def fail(n: int) -> None:
    raise ValueError(f"{n} is too small")


async def main():
    for n in range(2):
        await fail.options(id=f"j{n}").enqueue(n)
    await app.run_until_idle()


asyncio.run(main())
sentry_sdk.flush()
print(json.dumps([
    [
        event["logentry"]["message"],
        event["exception"]["values"][-1]["type"],
        event["exception"]["values"][-1]["stacktrace"]["frames"][-1]["function"],
        event["tags"],
    ]
    for event in sent
]))
"""


def test_sentry_gets_failures_grouped_and_tagged_with_their_job(tmp_path: Path):
    page = ROOT / "docs" / "guides" / "hooks.md"
    (recipe,) = [block for block in blocks(page) if block.file == "sentry_jobs.py"]
    (tmp_path / "sentry_jobs.py").write_text(recipe.text)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    events = json.loads(done.stdout.splitlines()[-1])
    assert len(events) == 2
    for n, (message, kind, function, tags) in enumerate(sorted(events, key=lambda event: event[3]["job"])):
        assert (message, kind, function) == ("job %s (%s) failed on attempt %d: %s", "ValueError", "fail")
        assert {name: tags[name] for name in ("job", "task", "queue")} == {
            "job": f"j{n}", "task": "fail", "queue": "default",
        }  # fmt: skip
