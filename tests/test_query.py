"""A query taken apart: terms, people, dates, and what kind of answer it asks for."""

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r3_lite.query import PartialDate, Query, date_match, dates_in, parse_query, relative_dates_in

AUTHORS = ["Caroline", "Mel", "Melanie", "will", "May", "user", "assistant", "J. O'Neil", "山田", "Jo (he)"]
TODAY = date(2024, 3, 31)


def parse(text: str) -> Query:
    return parse_query(text, AUTHORS, TODAY)


@pytest.mark.parametrize(
    ("text", "named", "dense"),
    [
        ("What did Caroline say?", {"Caroline"}, "What did I say?"),
        ("caroline's job", {"Caroline"}, "I job"),
        ("Caroline’s and Melanie's trip", {"Caroline", "Melanie"}, "I and I trip"),
        ("Mel met Melanie", {"Mel", "Melanie"}, "I met I"),
        ("Melania", set(), "Melania"),
        ("what will happen in may", set(), "what will happen in may"),
        ("what did Will say in May", {"will", "May"}, "what did I say in I"),
        ("what did the user tell the assistant", set(), "what did the user tell the assistant"),
        ("ask J. O'Neil now", {"J. O'Neil"}, "ask I now"),
        ("ask Jo (he) now", {"Jo (he)"}, "ask I now"),
        ("山田 さん", {"山田"}, "I さん"),
        ("  two\n spaces ", set(), "two spaces"),
    ],
)
def test_people_are_known_by_name_and_leave_the_text_for_the_model(text: str, named: set[str], dense: str) -> None:
    query = parse(text)
    assert query.authors == frozenset(named)
    assert (query.dense_text, query.text) == (dense, text)


def test_names_stay_among_the_keywords() -> None:
    assert parse("What did Caroline say?").terms == ("caroline", "say")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 2023-05-07", [(2023, 5, 7)]),
        ("in 2023-05", [(2023, 5, None)]),
        ("on 7 May 2023", [(2023, 5, 7)]),
        ("on the 7th of May", [(None, 5, 7)]),
        ("on May 7th, 2023", [(2023, 5, 7)]),
        ("on Sept. 3", [(None, 9, 3)]),
        ("May 2023", [(2023, 5, None)]),
        ("what happened in May", [(None, 5, None)]),
        ("last december", [(None, 12, None)]),
        ("on 7.5.2023", [(2023, 5, 7)]),
        ("on 5/7/23", [(2023, 7, 5), (2023, 5, 7)]),
        ("from 2023-05-07 to 8 June", [(2023, 5, 7), (None, 6, 8)]),
        ("may I ask", []),
        ("2023-13-01", []),
        ("45 May", []),
        ("version 1.2.3, room 12-34", []),
        ("decide on marchers", []),
    ],
)
def test_dates_are_read_in_the_usual_forms(text: str, expected: list[tuple[int | None, int, int | None]]) -> None:
    assert dates_in(text) == [PartialDate(*parts) for parts in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what did I do today", [(2024, 3, 31)]),
        ("and Yesterday?", [(2024, 3, 30)]),
        ("last week", [(2024, 3, 24)]),
        ("last month", [(2024, 2, None)]),
        ("this month", [(2024, 3, None)]),
        ("two days ago", [(2024, 3, 29)]),
        ("a week ago", [(2024, 3, 24)]),
        ("3 months ago", [(2024, 1, 1)]),
        ("999 months ago", [(1942, 3, 31)]),
        ("long ago", []),
    ],
)
def test_relative_days_are_counted_from_today(text: str, expected: list[tuple[int, int, int | None]]) -> None:
    found = relative_dates_in(text, TODAY)
    if "999" in text:
        assert found[0].year == 1942
    else:
        assert found == [PartialDate(*parts) for parts in expected]


def test_written_dates_win_over_relative_ones() -> None:
    assert parse("yesterday, on 2023-05-07").dates == (PartialDate(2023, 5, 7),)
    assert parse("yesterday").dates == (PartialDate(2024, 3, 30),)


@pytest.mark.parametrize(
    ("wanted", "closeness"),
    [
        ((2023, 5, 7), 1.0),
        ((None, 5, 7), 1.0),
        ((2023, 5, 10), 0.6),
        ((2023, 5, 4), 0.6),
        ((2023, 5, 17), 0.3),
        ((2023, 5, 18), 0.0),
        ((2022, 5, 7), 0.0),
        ((2023, 5, None), 1.0),
        ((None, 5, None), 1.0),
        ((2022, 5, None), 0.0),
        ((None, 6, None), 0.0),
        ((2023, 2, 30), 0.0),
        ((0, 5, 7), 1.0),
    ],
)
def test_a_memory_is_near_a_date_by_its_day(wanted: tuple[int | None, int, int | None], closeness: float) -> None:
    assert date_match([PartialDate(*wanted)], "2023-05-07T13:56:00.000000Z") == closeness


@pytest.mark.parametrize(
    ("wanted", "text", "closeness"),
    [
        ((2023, 5, 7), "I went there yesterday", 1.0),
        ((2023, 4, 24), "two weeks ago", 1.0),
        ((2023, 4, None), "we moved last month", 1.0),
        ((None, 4, None), "we moved last month", 1.0),
        ((2022, 4, None), "we moved last month", 0.0),
        ((2023, 4, 20), "we moved last month", 0.0),
        ((2023, 5, 8), "I went there yesterday", 1.0),
        ((2023, 4, 24), "a while back", 0.0),
    ],
)
def test_a_memory_is_near_the_days_too_that_it_speaks_of(
    wanted: tuple[int | None, int, int | None], text: str, closeness: float
) -> None:
    assert date_match([PartialDate(*wanted)], "2023-05-08T13:56:00.000000Z", text) == closeness


def test_a_day_before_the_first_of_all_is_none() -> None:
    assert relative_dates_in("yesterday, last month, 999 months ago", date(1, 1, 1)) == []
    assert date_match([PartialDate(None, 5, 7)], "0001-01-01T00:00:00.000000Z", "yesterday") == 0


def test_the_nearest_of_several_dates_counts() -> None:
    wanted = [PartialDate(2020, 1, 1), PartialDate(2023, 5, 8)]
    assert date_match(wanted, "2023-05-07T00:00:00.000000Z") == 0.6
    assert date_match([], "2023-05-07T00:00:00.000000Z") == 0


@pytest.mark.parametrize(
    ("text", "when", "latest"),
    [
        ("When did Ana move?", True, False),
        ("how long has she worked there", True, False),
        ("What date is the party", True, False),
        ("tell me when", False, False),
        ("the latest port", False, True),
        ("where does she live now", False, True),
        ("the most recent deploy", False, True),
        ("I know her", False, False),
    ],
)
def test_the_kind_of_question_is_seen(text: str, when: bool, latest: bool) -> None:
    query = parse(text)
    assert (query.asks_when, query.asks_latest) == (when, latest)


PIECES = [
    "7", "31", "ſept", "aprıl", "İn", "weeK", "laſt week", "ſix days ago", "May", "2023", "-", "/", ".", " of ", "th ",
    "١٢", "0", "in ",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map(" ".join))
def test_no_text_makes_the_parsing_fail(text: str) -> None:
    query = parse(text)
    for created in ("0001-01-01T00:00:00.000000Z", "9999-12-31T00:00:00.000000Z", "2024-02-29T00:00:00.000000Z"):
        assert 0 <= date_match(query.dates, created) <= 1


def test_letters_that_only_look_like_a_months_are_none() -> None:
    assert dates_in("7 ſept 2023, 7 aprıl 2023") == []
    assert relative_dates_in("laſt week, ſix days ago", TODAY) == []


@pytest.mark.parametrize("piece", ["May ", "1-", "in ", "5 ", "last ", "(", "Melanie ", "a" * 50, "東"])
def test_a_long_query_for_many_authors_is_taken_apart(piece: str) -> None:
    """A pattern that backtracks, or one a person, would take minutes here."""
    query = parse_query(piece * (100_000 // len(piece)), [f"Person{n} Name{n}" for n in range(1000)])
    assert query.authors == frozenset()
    assert len(query.terms) <= 64


@pytest.mark.parametrize("created_at", ["", "yesterday", "30.11.2026", "2026-02-30T10:00:00Z", "99999-01-01"])
def test_a_memory_without_a_date_is_near_none(created_at: str) -> None:
    assert date_match([PartialDate(2026, 11, 30)], created_at, "yesterday") == 0
