from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import perf_counter

import pytest

from headgate.clock import SECOND, instant_us
from headgate.errors import ConfigError
from headgate.periodic import MOST_TICKS, schedule, tick_text

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
NOON = instant_us(datetime(2026, 11, 16, 12, tzinfo=UTC), "test")


def test_every_ticks_on_a_grid_that_no_restart_moves():
    hourly = schedule(every=3600)
    assert hourly.next_after(NOON) == NOON + HOUR
    assert hourly.next_after(NOON - 1) == NOON
    assert schedule(every=timedelta(minutes=5)).next_after(NOON + 7 * MINUTE) == NOON + 10 * MINUTE


def test_catching_up_one_runs_the_latest_missed_tick_only():
    assert schedule(every=3600).missed(NOON, NOON + 5 * HOUR + 1) == [NOON + 5 * HOUR]
    assert schedule(cron="0 * * * *").missed(NOON, NOON + 59 * MINUTE) == []


def test_catching_up_none_runs_what_is_in_time_and_nothing_older():
    never = schedule(every=3600, catch_up="none")
    assert never.missed(NOON, NOON + HOUR + SECOND) == [NOON + HOUR]
    assert never.missed(NOON, NOON + HOUR + 2 * MINUTE) == []


def test_catching_up_all_runs_every_missed_tick_oldest_first():
    everything = schedule(cron="0 * * * *", catch_up="all")
    assert everything.missed(NOON, NOON + 3 * HOUR) == [NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR]


def test_catching_up_all_after_a_long_outage_runs_the_latest_thousand():
    year = 365 * 24 * HOUR
    ticks = schedule(every=60, catch_up="all").missed(NOON - year, NOON)
    assert len(ticks) == MOST_TICKS
    assert ticks[-1] == NOON
    assert ticks[0] == NOON - (MOST_TICKS - 1) * MINUTE


@pytest.mark.parametrize("catch_up", ["one", "none", "all"])
def test_ten_years_of_silence_are_looked_through_in_no_time(catch_up):
    began = perf_counter()
    schedule(cron="* * * * *", catch_up=catch_up).missed(NOON - 3650 * 24 * HOUR, NOON)
    assert perf_counter() - began < 1


def test_a_rare_schedule_is_found_however_long_ago_it_ticked():
    leap = schedule(cron="0 0 29 2 *")
    assert [tick_text(t) for t in leap.missed(NOON - 1500 * 24 * HOUR, NOON)] == ["2024-02-29T00:00:00Z"]


def test_a_tick_reads_as_utc_in_job_ids():
    assert tick_text(NOON) == "2026-11-16T12:00:00Z"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "either cron= or every="),
        ({"cron": "* * * * *", "every": 5}, "not both"),
        ({"every": 0.5}, "at least one second"),
        ({"every": -1}, "every="),
        ({"every": 60, "timezone": "Europe/Berlin"}, "belongs to cron="),
        ({"every": 60, "catch_up": "some"}, "catch_up='some'"),
        ({"cron": "nonsense"}, "cron='nonsense'"),
    ],
)
def test_a_wrong_schedule_is_refused_at_declaration(options, says):
    with pytest.raises(ConfigError, match=says):
        schedule(**options)
