"""How long versions are kept, what goes for good, and what the numbers of the others are then."""

from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from r3_lite import history, store
from r3_lite.clock import new_id
from r3_lite.db import APPLICATION_ID, Database, load_migrations
from r3_lite.errors import MemoryNotFound
from r3_lite.history import Version
from r3_lite.store import NewMemory

ADA, BEN = "ada", "ben"
END = "9999-01-01T00:00:00.000000Z"


def day(number: int) -> str:
    return f"2026-01-{number:02d}T00:00:00.000000Z"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        yield connection


def remember(connection: apsw.Connection, memory_id: str, days: list[int], user_id: str = ADA) -> None:
    """A memory with a version of each of these days."""
    store.insert(connection, NewMemory(user_id, f"{memory_id} {days[-1]}", id=memory_id))
    versions = [
        Version(n, "updated" if n > 1 else "created", f"{memory_id} {d}", {}, "medium", day(d))
        for n, d in enumerate(days, 1)
    ]
    history.write(connection, user_id, memory_id, versions, day(days[0]))


def forget(connection: apsw.Connection, memory_id: str, on: int, user_id: str = ADA) -> None:
    store.delete(connection, user_id, memory_id)
    connection.execute(
        "UPDATE history SET timestamp = ? WHERE memory_id = ? AND action = 'deleted'", (day(on), memory_id)
    )


def kept(connection: apsw.Connection) -> list[tuple[str, int]]:
    rows: list[Any] = connection.execute(
        "SELECT memory_id, version FROM history ORDER BY memory_id, version"
    ).fetchall()
    return rows


def test_a_version_has_its_time_until_the_next_one_comes(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 10, 20])
    assert not history.has_expired(connection, day(10))
    assert history.expire(connection, day(10), 9) == 0
    assert history.has_expired(connection, day(11))
    assert history.expire(connection, day(11), 9) == 1
    assert kept(connection) == [("a", 2), ("a", 3)]


def test_what_a_living_memory_is_never_expires(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 2])
    assert history.expire(connection, END, 9) == 1
    assert kept(connection) == [("a", 2)]
    assert not history.has_expired(connection, END)


def test_a_deleted_memory_expires_with_its_deletion(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 2])
    forget(connection, "a", 20)
    assert history.expire(connection, day(20), 9) == 1
    assert kept(connection) == [("a", 2), ("a", 3)]
    assert history.expire(connection, day(21), 9) == 2
    assert kept(connection) == []


def test_what_expired_goes_in_parts(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 2, 3, 4, 5, 6])
    assert [history.expire(connection, END, 2) for _ in range(4)] == [2, 2, 1, 0]
    assert kept(connection) == [("a", 6)]


def test_numbers_go_on_where_they_were(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 2, 3])
    history.expire(connection, END, 9)
    store.update(connection, ADA, "a", content="new")
    total, versions = history.versions(connection, ADA, "a", 9)
    assert (total, [v.version for v in versions]) == (2, [3, 4])


def test_one_memory_is_purged_but_for_what_it_is(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 2])
    remember(connection, "b", [1, 2])
    forget(connection, "b", 3)
    assert history.purge(connection, ADA, memory_id="a") == 1
    assert history.purge(connection, ADA, memory_id="b") == 3
    assert kept(connection) == [("a", 2)]
    with pytest.raises(MemoryNotFound):
        history.purge(connection, ADA, memory_id="b")


def test_the_deleted_of_one_user_are_purged(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 2])
    for memory_id, user_id in (("b", ADA), ("c", BEN)):
        remember(connection, memory_id, [1], user_id)
        forget(connection, memory_id, 3, user_id)
    assert history.purge(connection, ADA, deleted=True) == 2
    assert kept(connection) == [("a", 1), ("a", 2), ("c", 1), ("c", 2)]


def test_what_is_older_is_purged(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 5, 9])
    remember(connection, "b", [1], BEN)
    assert history.purge(connection, ADA, before=day(9)) == 1
    assert kept(connection) == [("a", 2), ("a", 3), ("b", 1)]


def test_ids_that_cannot_be_purged_are_not_found(connection: apsw.Connection) -> None:
    remember(connection, "a", [1, 2], BEN)
    for memory_id in ("a", new_id(), "x\udc00"):
        with pytest.raises(MemoryNotFound):
            history.purge(connection, ADA, memory_id=memory_id)
    assert len(kept(connection)) == 2


def test_deleted_memories_are_listed_by_id(connection: apsw.Connection) -> None:
    for memory_id, user_id in (("c", ADA), ("b", BEN), ("a", ADA), ("d", ADA)):
        remember(connection, memory_id, [1], user_id)
    for memory_id, user_id in (("c", ADA), ("b", BEN), ("a", ADA)):
        forget(connection, memory_id, 2, user_id)
    assert list(history.deleted(connection, ADA)) == [(ADA, "a"), (ADA, "c")]
    assert list(history.deleted(connection, None)) == [(ADA, "a"), (BEN, "b"), (ADA, "c")]


def test_a_written_history_takes_the_place_of_what_was_there(connection: apsw.Connection) -> None:
    store.insert(connection, NewMemory(ADA, "now", id="a"))
    versions = [
        Version(4, "updated", "was", {"é": [1.0, None]}, "low", day(1)),
        Version(7, "restored", "now", {}, "high", day(2)),
    ]
    history.write(connection, ADA, "a", versions, day(1), "batch")
    assert history.versions(connection, ADA, "a", 9) == (2, versions)
    assert history.origin(connection, ADA, "a") == (day(1), "batch")
    assert [state["version"] for state in history.states(connection, ADA, "a")] == [4, 7]


def test_older_files_learn_when_memories_were_made() -> None:
    """Migration 6: from the memory where it lives, else from its first version."""
    connection = apsw.Connection(":memory:")
    six = next(m for m in load_migrations() if m.name.endswith("history_origin"))
    for migration in load_migrations():
        if migration.version < six.version:
            connection.execute(migration.sql)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(
        """INSERT INTO memories (id, user_id, content, hash, created_at, updated_at, batch)
           VALUES ('a', 'ada', 'x', 'h', '2001', '2002', 'b')"""
    )
    for memory_id, version, timestamp in (("a", 1, "2002"), ("gone", 1, "2003"), ("gone", 2, "2004")):
        connection.execute(
            """INSERT INTO history (memory_id, version, user_id, action, content, metadata, priority, timestamp)
               VALUES (?, ?, 'ada', 'created', 'x', '{}', 'medium', ?)""",
            (memory_id, version, timestamp),
        )
    connection.execute(six.sql)
    assert history.origin(connection, ADA, "a") == ("2001", "b")
    assert history.origin(connection, ADA, "gone") == ("2003", None)


def test_numbers_that_no_number_can_hold_are_texts() -> None:
    assert history.from_json('{"a": 9e999, "b": [-1e400, 2.5], "c": 3}') == {"a": "9e999", "b": ["-1e400", 2.5], "c": 3}
