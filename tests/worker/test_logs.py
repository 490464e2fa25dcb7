from __future__ import annotations

import io
import json
import logging

import pytest

from headgate.errors import ConfigError
from headgate.worker.process.logs import JsonFormatter, configure_logs
from tests.support.logs import bare_root
from tests.worker.stand_in import StandIn, ended, put, working


def test_json_lines_carry_the_fields_of_a_record():
    stream = io.StringIO()
    with bare_root():
        configure_logs("info", json=True, stream=stream)
        try:
            raise ValueError("x")
        except ValueError:
            logging.getLogger("headgate.worker").exception("job %s", "j1", extra={"job": "j1", "odd": object})
    line = json.loads(stream.getvalue())
    assert line["message"] == "job j1"
    assert (line["level"], line["logger"], line["job"]) == ("error", "headgate.worker", "j1")
    assert "ValueError: x" in line["exception"]
    assert line["time"].endswith("+00:00")


def test_levels_below_the_chosen_one_are_left_out():
    stream = io.StringIO()
    with bare_root():
        configure_logs("warning", stream=stream)
        logging.getLogger("headgate.worker").info("quiet")
        logging.getLogger("headgate.worker").warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_an_unknown_level_is_refused():
    with pytest.raises(ConfigError, match="'chatty'"):
        configure_logs("chatty")


async def test_a_failed_job_is_logged_with_its_fields(engine, caplog):
    async def fail():
        raise ValueError("broken")

    task = StandIn("work", fail)
    id = await put(engine, task)
    async with working(engine, task):
        await ended(engine, id)
    (record,) = [record for record in caplog.records if "broken" in record.getMessage()]
    assert record.levelno == logging.ERROR
    line = json.loads(JsonFormatter().format(record))
    assert (line["job"], line["task"], line["attempt"]) == (id, "work", 1)
