"""Telling words: kept in step with the texts, and enough to find what is worded alike."""

from collections.abc import Iterator

import apsw
import pytest

from r3_lite import similar, store
from r3_lite.db import Database
from r3_lite.similar import find_similar
from r3_lite.store import NewMemory

ALICE, BOB = "alice", "bob"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        yield connection


def add(connection: apsw.Connection, content: str, user_id: str = ALICE) -> str:
    return store.insert(connection, NewMemory(user_id, content), near=False).id


def alike(connection: apsw.Connection, content: str, user_id: str = ALICE) -> list[str]:
    return [found.content for found in find_similar(connection, user_id, content)]


def kept(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM telling_words").get)


def test_a_text_keeps_as_many_words_as_one_like_it_can_miss_and_one_more(connection: apsw.Connection) -> None:
    add(connection, "one two three four five six seven eight nine ten")
    # Of ten words a text with Jaccard 0.6 shares six at least, so it cannot miss five.
    assert kept(connection) == 5


def test_a_changed_or_deleted_text_is_like_nothing_any_more(connection: apsw.Connection) -> None:
    first, second = (add(connection, f"the server port of {name} is 8000") for name in ("alpha", "beta"))
    assert len(alike(connection, "the server port of gamma is 8000")) == 2
    store.update(connection, ALICE, first, content="quite another text about cats")
    store.delete(connection, ALICE, second)
    assert alike(connection, "the server port of gamma is 8000") == []
    assert alike(connection, "quite another text about dogs") == ["quite another text about cats"]


def test_words_are_each_users_own(connection: apsw.Connection) -> None:
    add(connection, "the same text for both", BOB)
    assert alike(connection, "the same text for both") == []


def test_among_very_many_alike_the_newest_are_listed(connection: apsw.Connection) -> None:
    for n in range(200):
        add(connection, f"service number {n} listens on the port")
    assert len(alike(connection, "service number 1000 listens on the port")) == 5
    assert alike(connection, "service number 199 listens on the port")[0] == "service number 199 listens on the port"


def test_memories_that_another_program_stored_are_learned(connection: apsw.Connection) -> None:
    assert not similar.missing(connection)
    connection.execute(
        """INSERT INTO memories (id, user_id, content, hash, created_at, updated_at)
           VALUES ('x', 'alice', 'written by another program', 'h', '2026', '2026'),
                  ('y', 'alice', '!!!', 'h2', '2026', '2026')"""
    )
    assert similar.missing(connection)
    similar.learn_missing(connection)
    assert not similar.missing(connection)
    assert alike(connection, "written by another computer program") == ["written by another program"]
    before = kept(connection)
    similar.learn_missing(connection)
    assert kept(connection) == before
