"""The narrowing of keyword searches in large stores: what it leaves out, and what it must not."""

from collections.abc import Iterator

import apsw
import pytest

from r3_lite import keywords, store
from r3_lite.db import Database
from r3_lite.scope import scope_of
from r3_lite.store import NewMemory

ALICE, BOB = "alice", "bob"
TERMS = ["tea", "port", "meeting", "zebra"]


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    """A store whose terms are all frequent but one: 30 memories with each, 6 with two of them, 1 with the rare one."""
    with database.write() as connection:
        for term in TERMS[:3]:
            for n in range(30):
                add(connection, f"{term} number {n} of many others that say so")
        for n in range(6):
            add(connection, f"tea before the meeting, day {n}")
        add(connection, "the zebra is somewhere in this long text among other words")
        yield connection


def add(connection: apsw.Connection, content: str, user_id: str = ALICE) -> int:
    return store.insert(connection, NewMemory(user_id, content), near=False).seq


def found(connection: apsw.Connection, limit: int, user_id: str = ALICE) -> list[str]:
    matches = keywords.matches(connection, TERMS, scope_of(connection, user_id), limit)
    return [record.content for record in (store.fetch(connection, [seq])[seq] for seq in matches)]


def test_a_small_store_scores_every_match(connection: apsw.Connection) -> None:
    assert len(found(connection, 200)) == 97


def test_rare_terms_and_two_frequent_ones_are_enough(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = found(connection, 7)
    monkeypatch.setattr(keywords, "MOST_SCORED", 20)
    narrowed = found(connection, 7)
    assert set(narrowed) == set(every)
    assert sum("zebra" in text for text in narrowed) == 1
    assert sum("tea before the meeting" in text for text in narrowed) == 6


def test_where_the_narrowed_search_finds_too_few_the_newest_of_all_matches_are_scored_too(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowed = found(connection, 7)
    monkeypatch.setattr(keywords, "MOST_SCORED", 20)
    wider = found(connection, 60)
    assert wider[:7] == narrowed
    # Seven as before; of the newest twenty matches one has the rare word, six two others, and thirteen "meeting".
    assert len(wider) == 20
    assert sum(text.startswith("meeting number") for text in wider) == 13


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_several_terms_are_asked_for_from_loose_to_strict(count: int) -> None:
    queries = keywords._several([f"t{n}" for n in range(count)])
    expected = {
        1: [],
        2: ['("t0") AND ("t1")', '("t0") AND ("t1")'],
        3: ['("t0" OR "t2") AND ("t1")', '("t0") AND ("t1" OR "t2")', '("t0") AND ("t1") AND ("t2")'],
    }
    if count in expected:
        assert queries == expected[count]
    assert all(f'"t{n}"' in query for query in queries for n in range(count))


def test_scores_are_those_of_the_index(connection: apsw.Connection) -> None:
    scope = scope_of(connection, ALICE)
    expected = connection.execute(
        "SELECT rowid, -bm25(words, 1.0, 1.0, 1.0, 1.0, 0.0) FROM words WHERE words MATCH 'zebra OR meeting'"
    )
    assert keywords.matches(connection, ["zebra", "meeting"], scope, 500) == pytest.approx(dict(expected))


@pytest.mark.parametrize("user_id", ["carol", "", "ünïcode", "with space", 'quote"d', "ends in ed", "NOT", "x" * 256])
def test_a_small_user_of_a_large_file_finds_their_own(connection: apsw.Connection, user_id: str) -> None:
    add(connection, "tea with a zebra", user_id)
    assert scope_of(connection, user_id).small
    assert found(connection, 5, user_id) == ["tea with a zebra"]
    assert keywords.is_rare(connection, "zebra", scope_of(connection, user_id), 2)
    assert found(connection, 5, "nobody") == []


def test_the_word_of_an_owner_is_found_by_no_query(connection: apsw.Connection) -> None:
    word = connection.execute("SELECT owner FROM memories LIMIT 1").get
    assert keywords.matches(connection, [word], scope_of(connection, ALICE), 5) == {}
