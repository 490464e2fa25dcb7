"""One trace over processes: a program that enqueues, a worker, and the processes of its pool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.child import ROOT
from tests.support.waiting import eventually
from tests.support.worker_command import worker_command

SHOP = """
import os

from headgate import App, current_job
from headgate.telemetry import instrument
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult


class File(SpanExporter):
    def export(self, spans):
        with open(os.environ["SPANS"], "a") as file:
            for span in spans:
                file.write(span.to_json(indent=None)[:-1] + f', "pid": {os.getpid()}}}\\n')
        return SpanExportResult.SUCCESS


tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(File()))
trace.set_tracer_provider(tracers)
app = App(os.environ["HEADGATE_URL"])
instrument(app)


@app.task
async def first() -> None:
    await second.enqueue()

@app.task(run_in="process")
def second() -> None:
    with trace.get_tracer("shop").start_as_current_span("in the pool"):
        third.enqueue_sync()

@app.task
def third() -> None:
    trace.get_current_span().set_attribute("tenant", baggage.get_baggage("tenant"))

@app.task(run_in="process")
def fails() -> None:
    raise LookupError("no such customer")

if __name__ == "__main__":
    from opentelemetry import context
    context.attach(baggage.set_baggage("tenant", "acme"))
    with trace.get_tracer("shop").start_as_current_span("request"):
        first.enqueue_sync()
        fails.enqueue_sync()
"""


def read(file: Path) -> dict[str, dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {span["name"]: span for span in map(json.loads, lines)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The spans of one request: three processes have written them."""
    if sys.platform == "win32":
        pytest.skip("the pool needs POSIX")
    folder = tmp_path_factory.mktemp("traced")
    url, spans = f"sqlite:///{folder}/jobs.db", folder / "spans"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPANS", str(spans))
        with worker_command(folder, SHOP, url):
            environment = {**os.environ, "HEADGATE_URL": url, "PYTHONPATH": str(ROOT)}
            subprocess.run(
                [sys.executable, folder / "worked_shop.py"], check=True, env=environment, timeout=60
            )
            eventually(lambda: {"attempt third", "attempt fails"} <= read(spans).keys(), "the last spans")
    return read(spans)


def test_one_trace_goes_over_producer_worker_and_pool(found: dict[str, dict[str, Any]]):
    chain = [
        "request", "enqueue first", "attempt first", "enqueue second", "attempt second", "in the pool",
        "enqueue third", "attempt third",
    ]  # fmt: skip
    for parent, child in pairwise(chain):
        assert found[child]["parent_id"] == found[parent]["context"]["span_id"], child
    assert len({span["context"]["trace_id"] for span in found.values()}) == 1
    processes = [found[name]["pid"] for name in ("request", "attempt first", "in the pool")]
    assert len(set(processes)) == 3
    assert found["attempt third"]["attributes"]["headgate.outcome"] == "succeeded"
    assert found["attempt third"]["attributes"]["tenant"] == "acme"


def test_an_exception_in_the_pool_is_recorded_as_it_was_raised(found: dict[str, dict[str, Any]]):
    span = found["attempt fails"]
    assert span["status"] == {"status_code": "ERROR", "description": "LookupError: no such customer"}
    assert span["attributes"]["error.type"] == "LookupError"
    (event,) = span["events"]
    assert event["attributes"]["exception.message"] == "no such customer"
    assert "worked_shop.py" in event["attributes"]["exception.stacktrace"]


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


def test_without_the_extra_all_works_until_traces_are_asked_for():
    said = run(
        "import sys\nsys.modules['opentelemetry'] = None\nfrom headgate import App, ConfigError\n"
        "from headgate.telemetry import instrument\napp = App('memory://')\napp.run_until_idle_sync()\n"
        "try: instrument(app)\nexcept ConfigError as error: print(error)\n"
    )
    assert said == "traces and metrics need the API of OpenTelemetry: pip install 'headgate[otel]'\n"


def test_without_the_sdk_jobs_run_and_pass_on_the_trace_that_they_are_given():
    said = run(
        "import sys\nsys.modules['opentelemetry.sdk'] = None\nfrom headgate import App, current_job\n"
        "from headgate.telemetry import instrument\napp = App('memory://')\ninstrument(app)\n"
        "@app.task\ndef leaf(): print(current_job().headers)\n"
        "@app.task\ndef work(): leaf.enqueue_sync()\n"
        "work.enqueue_sync()\napp.run_until_idle_sync()\n"
        "given = {'traceparent': '00-' + 32 * 'a' + '-' + 16 * 'b' + '-01'}\n"
        "work.options(headers=given).enqueue_sync()\napp.run_until_idle_sync()\n"
    )
    assert said == f"{{}}\n{{'traceparent': '00-{32 * 'a'}-{16 * 'b'}-01'}}\n"


def test_the_client_is_imported_only_where_it_is_asked_for():
    assert (
        run("import sys, headgate, headgate.telemetry\nprint('opentelemetry' in sys.modules)\n") == "False\n"
    )
