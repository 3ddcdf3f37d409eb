"""Rules of r3_lite.dates."""

import pytest

from r3_lite.dates import find_dates


def dates_in(text: str) -> list[str]:
    return [text[start:end] for start, end in find_dates(text)]


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("Due on 2025-03-01.", ["2025-03-01"]),
        ("Due on 01.03.2025.", ["01.03.2025"]),
        ("From June 12 to June 14 in Rome.", ["June 12 to June 14"]),
        ("Born on 3 April 1990.", ["3 April 1990"]),
        ("Released March 3rd, 2024", ["March 3rd, 2024"]),
        ("Planned for Q3 2026", ["Q3 2026"]),
        ("We meet next Tuesday and last year", ["next Tuesday", "last year"]),
        ("He joined in 2019.", ["2019"]),
    ],
)
def test_dates_are_found_as_written(text: str, dates: list[str]) -> None:
    assert dates_in(text) == dates


def test_the_longest_reading_wins() -> None:
    assert dates_in("In May 2024 we moved.") == ["May 2024"]


def test_month_names_that_are_words_need_a_word_of_time_before() -> None:
    assert dates_in("May I ask April to march?") == []
    assert dates_in("Not before May, or in March.") == ["May", "March"]


def test_last_before_a_month_stays_outside() -> None:
    assert dates_in("It started last October.") == ["October"]


def test_text_without_capitals_is_read_without_case() -> None:
    assert dates_in("see you next friday or on june 3") == ["next friday", "june 3"]


def test_numbers_versions_and_times_are_no_dates() -> None:
    assert dates_in("Version 2024 has 1990 rows, 10.2.1 since 7 am, in 30 days") == []


def test_today_is_no_date() -> None:
    assert dates_in("Today is fine.") == []
