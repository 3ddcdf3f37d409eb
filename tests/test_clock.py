"""Times as the file keeps them, and ids that are unique and sort by creation."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r3_lite.clock import ID_PATTERN, new_id, now_text, parse_time, to_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES)


def decoded(memory_id: str) -> datetime:
    """The moment in an id, read independently of the code that writes it."""
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    number = 0
    for character in memory_id[4:15]:
        number = number * 32 + digits.index(character)
    return EPOCH + timedelta(microseconds=number)


@given(MOMENTS)
def test_a_stored_time_names_the_same_moment(moment: datetime) -> None:
    text = to_text(moment)
    assert len(text) == 27
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == moment


@given(MOMENTS, MOMENTS)
def test_stored_times_sort_as_text(a: datetime, b: datetime) -> None:
    assert (to_text(a) < to_text(b)) == (a < b)


def test_a_time_without_zone_is_utc() -> None:
    assert to_text(datetime(2026, 1, 31, 9, 30)) == "2026-01-31T09:30:00.000000Z"
    assert parse_time("2026-01-31T09:30:00") == datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def test_years_below_1000_keep_four_digits() -> None:
    assert to_text(datetime(33, 4, 3)) == "0033-04-03T00:00:00.000000Z"


@given(MOMENTS)
def test_iso_text_is_read_in_every_zone(moment: datetime) -> None:
    assert parse_time(f" {moment.isoformat()} ") == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("20240229T120000Z", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("2024-02-29 12:00:00.5+02:00", datetime(2024, 2, 29, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2024-02-29T23:00:00-08:00", datetime(2024, 3, 1, 7, tzinfo=UTC)),
    ],
)
def test_the_usual_forms_of_iso_text_are_read(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@given(st.integers(0, 99_999_999_999))
def test_small_numbers_are_seconds_since_1970(seconds: int) -> None:
    assert parse_time(seconds) == EPOCH + timedelta(seconds=seconds)


@given(st.integers(100_000_000_001, 253_402_300_799_000))
def test_large_numbers_are_milliseconds_since_1970(milliseconds: int) -> None:
    moment = parse_time(milliseconds)
    assert moment is not None
    assert abs(moment - (EPOCH + timedelta(milliseconds=milliseconds))) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, "", "yesterday", "2024-02-30", "2024-13-01", "12:30", [], {}, -1, -1e300, 1e300, 10**400,
        -(10**400), float("nan"), float("inf"), float("-inf"), 253_402_300_800_000, "9999-12-31T23:59:59-10:00",
        "0001-01-01T00:00:00+10:00", "2024-02-29\x00", "\ud800", "२०२४-०२-२९",
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_what_is_no_time_is_none(value: Any) -> None:
    assert parse_time(value) is None


@given(st.one_of(st.text(), st.integers(), st.floats(), st.binary(), st.lists(st.integers())))
def test_no_value_makes_the_reading_fail(value: Any) -> None:
    moment = parse_time(value)
    assert moment is None or moment.tzinfo is UTC


def test_now_is_now() -> None:
    before = datetime.now(UTC)
    read = parse_time(now_text())
    assert read is not None
    assert before <= read <= datetime.now(UTC)


def test_ids_have_their_form() -> None:
    assert all(ID_PATTERN.fullmatch(new_id()) for _ in range(100))


def test_ids_ascend_strictly_within_a_process() -> None:
    ids = [new_id() for _ in range(5_000)]
    assert ids == sorted(set(ids))


def test_ids_ascend_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_id()
    monkeypatch.setattr("r3_lite.clock.time.time_ns", lambda: 0)
    assert new_id() > first


def test_ids_of_many_threads_are_unique() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = [i for part in pool.map(lambda _: [new_id() for _ in range(500)], range(8)) for i in part]
    assert len(set(ids)) == 4_000


def test_ids_of_many_processes_are_unique_and_sort_by_creation() -> None:
    program = "from r3_lite.clock import new_id\nfor _ in range(2000): print(new_id())"

    def run() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)

    together = [run(), run(), run()]
    rounds = [process.communicate()[0].split() for process in together]
    later = run().communicate()[0].split()
    ids = [i for part in rounds for i in part]
    assert len(set(ids + later)) == 8_000
    assert max(ids) < min(later)


@given(st.datetimes(datetime(1970, 1, 1), datetime(3100, 1, 1), timezones=st.just(UTC)))
def test_an_id_can_sort_at_an_earlier_moment(moment: datetime) -> None:
    assert decoded(new_id(to_text(moment))) == moment


@pytest.mark.parametrize("created_at", ["0001-01-01T00:00:00.000000Z", "9999-12-31T00:00:00.000000Z"])
def test_ids_of_moments_that_do_not_fit_stay_at_their_end(created_at: str) -> None:
    made = new_id(created_at)
    assert ID_PATTERN.fullmatch(made)
    assert (made < new_id("1970-01-01T00:00:00.000001Z")) == created_at.startswith("0001")
    assert (made > new_id("3100-01-01T00:00:00.000000Z")) == created_at.startswith("9999")
