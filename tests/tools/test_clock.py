"""The clock: the time in a zone, and dates reckoned with."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tooling import ToolFailed
from tools.clock import add_to_date, current_time, days_between


@pytest.mark.parametrize("zone", ["UTC", "utc", "Asia/Tokyo", "America/New_York"])
def test_the_time_in_a_zone_is_the_time_now(zone: str) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    told = current_time(zone)
    after = datetime.now(UTC)

    assert before <= told.time <= after
    assert told.zone == zone
    assert told.weekday == told.time.strftime("%A")
    assert told.time.microsecond == 0


def test_the_time_is_told_in_the_zone() -> None:
    assert current_time("Asia/Tokyo").time.utcoffset() == timedelta(hours=9)
    assert current_time().time.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Tokyo", "Did you mean Asia/Tokyo?"),
        ("europe/oslo", "Europe/Oslo"),
        ("New York", "America/New_York"),
        ("Europe", "IANA name"),
        ("", "IANA name"),
        ("../../etc/passwd", "IANA name"),
        ("a\0b", "IANA name"),
        ("x" * 5000, "IANA name"),
    ],
)
def test_an_unknown_zone_is_refused_with_zones_that_may_have_been_meant(zone: str, hint: str) -> None:
    with pytest.raises(ToolFailed, match="There is no time zone") as refused:
        current_time(zone)

    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        (date(2024, 1, 1), date(2024, 3, 1), 60),
        (date(2023, 1, 1), date(2023, 3, 1), 59),
        (date(2024, 3, 1), date(2024, 1, 1), -60),
        (date(2024, 3, 1), date(2024, 3, 1), 0),
    ],
)
def test_days_are_counted_from_one_date_to_the_other(start: date, end: date, days: int) -> None:
    assert days_between(start, end) == days


@pytest.mark.parametrize(
    ("start", "more", "end"),
    [
        (date(2024, 1, 1), {"days": 90}, date(2024, 3, 31)),
        (date(2024, 1, 1), {"weeks": 2, "days": 1}, date(2024, 1, 16)),
        (date(2024, 1, 31), {"months": 1}, date(2024, 2, 29)),
        (date(2024, 2, 29), {"years": 1}, date(2025, 2, 28)),
        (date(2024, 3, 31), {"months": -1}, date(2024, 2, 29)),
        (date(2024, 12, 15), {"months": 1}, date(2025, 1, 15)),
        (date(2024, 1, 31), {"months": 1, "days": 1}, date(2024, 3, 1)),
        (date(2024, 1, 1), {"days": -1}, date(2023, 12, 31)),
        (date(2024, 1, 1), {}, date(2024, 1, 1)),
    ],
)
def test_days_weeks_months_and_years_are_added(start: date, more: dict[str, int], end: date) -> None:
    assert add_to_date(start, **more) == end


@pytest.mark.parametrize(
    "more", [{"years": 8000}, {"years": -3000}, {"days": 10**9}, {"days": 10**20}, {"months": 10**9}]
)
def test_a_date_beyond_the_calendar_is_refused(more: dict[str, int]) -> None:
    with pytest.raises(ToolFailed, match="years 1 to 9999"):
        add_to_date(date(2024, 1, 1), **more)


@given(st.dates(min_value=date(1000, 1, 1), max_value=date(3000, 1, 1)), st.integers(-9999, 9999))
def test_adding_days_and_counting_them_agree(start: date, days: int) -> None:
    assert days_between(start, add_to_date(start, days=days)) == days
