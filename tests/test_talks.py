"""Which memories belong to one talk: named sessions, and authors with little time between them."""

from datetime import timedelta
from typing import Any

import pytest

from r3_lite.store import Record
from r3_lite.talks import BATCH, GAP, in_session, said_soon_after, talks

BATCHED = f"{BATCH}2024-01-01T00:00:00.000000Z"


def turn(seq: int, minute: int = 0, author: str | None = "Ana", session: str | None = None, **more: Any) -> Record:
    created = f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00.000000Z"
    plain = Record(seq, f"mem_{seq}", "u", f"text {seq}", "{}", "medium", f"h{seq}", created, created, author, session)
    return plain._replace(**more)


def grouped(*records: Record) -> list[set[int]]:
    named = talks(records)
    return [{seq for seq, name in named.items() if name == one} for one in dict.fromkeys(named.values())]


def test_a_session_that_the_caller_named_is_a_talk_whoever_says_it_and_whenever() -> None:
    assert grouped(turn(1, session="a"), turn(2, 600, None, "a"), turn(3, session="b")) == [{1, 2}, {3}]


def test_people_who_speak_soon_after_each_other_are_in_one_talk() -> None:
    assert grouped(turn(3, 71), turn(1, 0), turn(2, 30), turn(4, 61)) == [{1, 2}, {3, 4}]


def test_notes_without_an_author_are_no_talk() -> None:
    assert talks([turn(1, author=None), turn(2, author=None), turn(3, author=None, session=BATCHED)]) == {}


def test_what_was_imported_at_once_is_a_talk_where_it_was_said_at_once() -> None:
    imported = [turn(n, minute, session=BATCHED) for n, minute in ((1, 0), (2, 5), (3, 300))]
    assert grouped(*imported, turn(4, 5)) == [{1, 2}, {3}, {4}]


@pytest.mark.parametrize(("session", "named"), [(None, False), (BATCHED, False), ("monday", True)])
def test_only_a_session_that_the_caller_gave_is_one(session: str | None, named: bool) -> None:
    assert in_session(turn(1, session=session)) is named


def test_soon_is_up_to_the_gap() -> None:
    assert timedelta(minutes=30) == GAP
    assert said_soon_after("2024-01-01T23:45:00.000000Z", "2024-01-02T00:15:00.000000Z")
    assert not said_soon_after("2024-01-01T23:45:00.000000Z", "2024-01-02T00:15:00.000001Z")
    assert said_soon_after("2024-01-01T23:45:00.000000Z", "2024-01-01T23:45:59.999999Z")


@pytest.mark.parametrize("odd", ["", "yesterday", "2026-02-30T10:00:00Z", "2026-11-30 10:00:00"])
def test_what_has_no_date_was_not_said_soon_after(odd: str) -> None:
    assert not said_soon_after("2026-11-30T10:10:00.000000Z", odd)
