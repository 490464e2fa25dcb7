from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from headgate.clock import from_us, instant_us
from headgate.cron import Cron
from headgate.errors import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")


def utc(*parts: int) -> int:
    return instant_us(datetime(*parts, tzinfo=UTC), "test")


def fires(expression: str, zone: str | None, start: int, count: int) -> list[str]:
    cron = Cron(expression, zone)
    return [from_us(t).strftime("%m-%d %H:%M") for t in islice(cron.after(start), count)]


def test_it_fires_strictly_after_the_given_moment():
    cron = Cron("0 2 * * *")
    at_two = utc(2026, 11, 16, 2)
    assert next(cron.after(at_two)) == utc(2026, 11, 17, 2)
    assert next(cron.after(at_two - 1)) == at_two


def test_a_zone_moves_the_hour_in_utc():
    assert fires("0 2 * * *", "Europe/Berlin", utc(2026, 1, 1), 1) == ["01-01 01:00"]
    assert fires("0 2 * * *", "Europe/Berlin", utc(2026, 7, 1), 1) == ["07-02 00:00"]


def test_a_fixed_time_in_a_gap_fires_once_at_the_first_minute_after_it():
    # 2026-03-29 in Berlin: 02:00 becomes 03:00, which is 01:00 UTC.
    start = utc(2026, 3, 28, 12)
    assert fires("30 2 * * *", "Europe/Berlin", start, 2) == ["03-29 01:00", "03-30 00:30"]
    assert fires("15,45 2 * * *", "Europe/Berlin", start, 2) == ["03-29 01:00", "03-30 00:15"]


def test_a_fixed_time_in_an_overlap_fires_once_at_its_first_pass():
    # 2026-10-25 in Berlin: 02:30 comes at 00:30 and again at 01:30 UTC.
    assert fires("30 2 * * *", "Europe/Berlin", utc(2026, 10, 24, 12), 2) == ["10-25 00:30", "10-26 01:30"]


def test_asking_during_the_second_pass_of_an_overlap_never_answers_with_the_past():
    second_pass = utc(2026, 10, 25, 1, 10)
    assert fires("30 2 * * *", "Europe/Berlin", second_pass, 1) == ["10-26 01:30"]


def test_a_wildcard_follows_the_time_that_passes_through_gap_and_overlap():
    gap = fires("*/30 * * * *", "Europe/Berlin", utc(2026, 3, 29, 0, 15), 4)
    assert gap == ["03-29 00:30", "03-29 01:00", "03-29 01:30", "03-29 02:00"]
    overlap = fires("0 * * * *", "Europe/Berlin", utc(2026, 10, 24, 23, 30), 3)
    assert overlap == ["10-25 00:00", "10-25 01:00", "10-25 02:00"]


def test_asking_again_from_each_answer_gives_the_same_as_going_on():
    for expression in ("30 2 * * *", "15,45 2 * * *", "*/20 * * * *", "0 */2 * * *"):
        for start in (utc(2026, 3, 28, 20), utc(2026, 10, 24, 20)):
            cron = Cron(expression, BERLIN)
            going_on = list(islice(cron.after(start), 12))
            asked, at = [], start
            for _ in range(12):
                at = next(cron.after(at))
                asked.append(at)
            assert asked == going_on
            assert going_on == sorted(set(going_on))


def test_names_and_last_days_and_macros_are_understood():
    assert fires("0 12 L * *", None, utc(2026, 2, 1), 1) == ["02-28 12:00"]
    assert fires("0 0 * * MON#1", None, utc(2026, 11, 1), 1) == ["11-02 00:00"]
    assert fires("@weekly", None, utc(2026, 11, 2), 1) == ["11-08 00:00"]


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("61 * * * *", "Bad minute"),
        ("* * *", "3 fields"),
        ("0 0 2 * * *", "use every="),
        ("0 0 30 2 *", "would never fire"),
        ("@sometimes", "1 fields"),
        ("", "0 fields"),
        (5, "a text is needed"),
    ],
)
def test_what_cannot_be_read_is_refused_at_declaration(expression, says):
    with pytest.raises(ConfigError, match=says):
        Cron(expression)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", 3])
def test_an_unknown_zone_is_refused_by_name(zone):
    with pytest.raises(ConfigError, match="timezone="):
        Cron("0 0 * * *", zone)
