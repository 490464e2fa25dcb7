# pyright: reportRedeclaration=false
from __future__ import annotations

import io
import json
import logging
import logging.config
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headgate import App, Retry, RetryLater
from headgate.hooks import JobContextFilter, add_job_context
from headgate.worker.process.logs import JsonFormatter, LineFormatter, configure_logs
from tests.support.logs import bare_root

shop = logging.getLogger("shop")


class Collector(logging.Handler):
    """Groups failures as an error tracker does: by template, and by type and place of the exception."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.groups: dict[tuple[str, str, str], list[logging.LogRecord]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        kind, place = "", ""
        if record.exc_info and record.exc_info[0] is not None:
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            kind = record.exc_info[0].__name__
            place = trace.tb_frame.f_code.co_name if trace is not None else ""
        self.groups.setdefault((record.msg, kind, place), []).append(record)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    logging.getLogger().addHandler(made)
    yield made
    logging.getLogger().removeHandler(made)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What passes a handler with the filter."""
    seen: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    handler = Handler()
    handler.addFilter(JobContextFilter())
    shop.addHandler(handler)
    yield seen
    shop.removeHandler(handler)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_every_record_logged_in_a_job_says_which(app: App, records: list[logging.LogRecord], kind: str):
    if kind == "async":

        async def work() -> None:
            shop.warning("in the job")

    else:

        def work() -> None:
            shop.warning("in the job")

    job = await app.task(work).options(tenant="acme").enqueue()
    await app.run_until_idle()
    shop.warning("outside")
    inside, outside = records
    worker = (await job.info()).attempts[0].worker
    fields = {name: getattr(inside, name) for name in ("job", "task", "attempt", "queue", "tenant", "worker")}
    assert fields == {
        "job": job.id, "task": "work", "attempt": 1, "queue": "default", "tenant": "acme", "worker": worker,
    }  # fmt: skip
    assert {getattr(outside, name) for name in fields} == {None}


async def test_what_a_record_says_of_itself_is_left_as_it_is(app: App, records: list[logging.LogRecord]):
    @app.task
    async def work() -> None:
        shop.warning("in the job", extra={"job": "another", "task": None})

    await work.enqueue()
    await app.run_until_idle()
    assert (records[0].__dict__["job"], records[0].__dict__["task"]) == ("another", None)


async def test_a_processor_of_structlog_gets_the_same(app: App):
    events: list[dict[str, object]] = []

    @app.task
    async def work() -> None:
        events.append(dict(add_job_context(None, "info", {"event": "inside", "queue": "kept"})))

    job = await work.enqueue()
    await app.run_until_idle()
    assert events[0]["job"] == job.id
    assert (events[0]["task"], events[0]["queue"]) == ("work", "kept")
    assert add_job_context(None, "info", {"event": "outside"}) == {"event": "outside"}


async def test_an_error_tracker_groups_failures_whatever_the_job(app: App, collector: Collector):
    @app.task
    async def work(n: int) -> None:
        if n % 2:
            raise ValueError(f"{n} is odd")
        raise OSError(f"{n} is even")

    jobs = await app.enqueue_many(work.job(n) for n in range(4))
    await app.run_until_idle()
    template = "job %s (%s) failed on attempt %d: %s"
    assert {group: len(records) for group, records in collector.groups.items()} == {
        (template, "ValueError", "work"): 2,
        (template, "OSError", "work"): 2,
    }
    (record, _) = collector.groups[template, "OSError", "work"]
    assert record.getMessage() == f"job {jobs[0].id} (work) failed on attempt 1: OSError: 0 is even"
    assert record.__dict__["job"] == jobs[0].id


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_retry_is_a_warning_with_its_exception(app: App, caplog, kind: str):
    if kind == "async":

        async def work() -> None:
            raise OSError("no connection")

    else:

        def work() -> None:
            raise OSError("no connection")

    await app.task(retry=Retry(attempts=2, delay=60, jitter=0))(work).enqueue()
    await app.run_until_idle()
    (record,) = [record for record in caplog.records if record.name == "headgate.worker"]
    assert record.levelno == logging.WARNING
    assert "failed on attempt 1, next in 60 s: OSError: no connection" in record.getMessage()
    assert record.exc_info[0] is OSError


async def test_an_attempt_that_asks_for_a_later_one_needs_no_traceback(app: App, caplog):
    @app.task(retry=Retry(attempts=2))
    async def work() -> None:
        raise RetryLater(60, "not yet")

    await work.enqueue()
    await app.run_until_idle()
    (record,) = [record for record in caplog.records if record.name == "headgate.worker"]
    assert "not yet" in record.getMessage()
    assert not record.exc_info


async def test_a_success_says_how_long_it_took_and_waited(app: App, clock, caplog):
    @app.task
    async def work() -> None: ...

    caplog.set_level(logging.DEBUG, "headgate.worker")
    job = await work.enqueue()
    clock.advance(3)
    await app.run_until_idle()
    (record,) = [record for record in caplog.records if "succeeded" in record.getMessage()]
    assert record.getMessage().startswith(f"job {job.id} (work) succeeded on attempt 1 in ")
    assert record.getMessage().endswith("after waiting 3 s")
    assert (record.waiting, record.duration >= 0) == (3, True)


async def test_the_first_line_of_a_worker_says_all_but_the_password(tmp_path, caplog):
    import headgate

    caplog.set_level(logging.INFO, "headgate.worker")
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    async with app, app.worker(queues=["email", "default"], concurrency=7):
        pass
    line = next(record.getMessage() for record in caplog.records if "started" in record.getMessage())
    assert f"headgate {headgate.__version__} on sqlite://" in line
    assert line.endswith("queues email, default, concurrency 7")
    app = App("postgresql://ada:secret@localhost/jobs")
    assert "secret" not in app._client.shown_url


def line_of(formatter: logging.Formatter, **fields: object) -> str:
    record = logging.makeLogRecord({"name": "shop", "levelname": "INFO", "msg": "hello", **fields})
    return formatter.format(record)


def test_lines_for_people_name_the_job_at_their_end():
    fields = {"job": "j1", "task": "send", "attempt": 2}
    assert line_of(LineFormatter(), **fields).endswith("shop: hello [send j1 attempt 2]")
    assert line_of(LineFormatter(), job=None).endswith("shop: hello")
    own = line_of(LineFormatter(), **fields, name="headgate.worker")
    assert own.endswith("headgate.worker: hello"), "Headgate's own lines name the job themselves"


def test_json_lines_leave_out_what_is_unknown_and_survive_what_is_no_text():
    line = json.loads(line_of(JsonFormatter(), job=None, tenant=None, msg="broken \udcff", other=None))
    assert "job" not in line
    assert line["other"] is None
    assert line["message"] == "broken \\udcff"


def test_a_handler_of_the_app_stays_and_is_the_only_one():
    with bare_root() as root:
        mine = logging.StreamHandler(io.StringIO())
        root.addHandler(mine)
        root.setLevel(logging.ERROR)
        configure_logs("debug")
        configure_logs("debug")
        assert root.handlers == [mine]
        assert root.level == logging.ERROR
        assert logging.getLogger("headgate.worker").isEnabledFor(logging.DEBUG)
        assert [type(each) for each in mine.filters] == [JobContextFilter]


def test_a_configuration_of_the_app_does_not_silence_the_worker_by_accident():
    said = io.StringIO()
    with bare_root():
        logging.config.dictConfig(
            {
                "version": 1,
                "handlers": {"mine": {"class": "logging.StreamHandler", "stream": said}},
                "root": {"handlers": ["mine"], "level": "WARNING"},
            }
        )
        own = logging.getLogger("headgate.worker")
        try:
            configure_logs("info", config="none")
            assert own.disabled
            configure_logs("info")
            own.error("a job has failed")
        finally:
            for logger in logging.root.manager.loggerDict.values():
                if isinstance(logger, logging.Logger):
                    logger.disabled = False
    assert said.getvalue() == "a job has failed\n"


def test_none_leaves_logging_alone():
    with bare_root() as root:
        configure_logs("debug", config="none")
        assert root.handlers == []
        mine = logging.StreamHandler(io.StringIO())
        root.addHandler(mine)
        configure_logs("debug", config="none")
        assert mine.filters == []


QUIET = """
import asyncio
from headgate import App

app = App("memory://")


@app.task
async def work():
    raise ValueError("broken")


async def main():
    await work.enqueue()
    await app.run_until_idle()
    async with app.worker():
        pass


asyncio.run(main())
"""


def test_an_embedded_worker_is_silent_unless_logging_is_configured():
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    loud = f"import logging; logging.basicConfig(level='INFO')\n{QUIET}"
    done = subprocess.run([sys.executable, "-c", loud], capture_output=True, text=True, check=True)
    assert "failed on attempt 1: ValueError: broken" in done.stderr
    assert "started: headgate" in done.stderr
