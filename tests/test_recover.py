"""Bringing a memory back: as it was, under its own id, and never as a silent second of another."""

from collections.abc import Callable, Iterator
from typing import Any

import apsw
import pytest
from mcp_helpers import indexed

from r3_lite import graph, history, keywords, recover, store
from r3_lite.clock import new_id
from r3_lite.db import Database
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, MemoryNotFound
from r3_lite.scope import scope_of
from r3_lite.store import NewMemory

ADA, BEN = "ada", "ben"
LONG_AGO = "2001-02-03T04:05:06.000007Z"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        yield connection


def add(connection: apsw.Connection, content: str, user_id: str = ADA, **more: Any) -> str:
    return store.insert(connection, NewMemory(user_id, content, **more)).id


def actions(connection: apsw.Connection, memory_id: str) -> list[str]:
    return [version.action for version in history.versions(connection, ADA, memory_id, 99)[1]]


def test_a_deleted_memory_comes_back_as_it_was(connection: apsw.Connection) -> None:
    metadata = {"topic": "tea", "empty": None, "nested": {"a": [1, 1.0, True]}}
    more: dict[str, Any] = {
        "metadata": metadata,
        "priority": "high",
        "created_at": LONG_AGO,
        "batch": "b",
        "id": "note-1",
    }
    add(connection, "Tea is in the drawer", **more)
    before = store.delete(connection, ADA, "note-1")
    record = recover.restore(connection, ADA, "note-1")
    same = ("id", "user_id", "content", "metadata_json", "priority", "hash", "created_at", "session")
    assert [getattr(record, name) for name in same] == [getattr(before, name) for name in same]
    assert record.updated_at > before.updated_at
    assert actions(connection, "note-1") == ["created", "deleted", "restored"]


def test_it_is_found_by_keyword_again_and_owed_vector_and_entities(connection: apsw.Connection) -> None:
    memory_id = add(connection, "Tea is in the drawer")
    store.delete(connection, ADA, memory_id)
    assert keywords.matches(connection, ["drawer"], scope_of(connection, ADA), 9) == {}
    record = recover.restore(connection, ADA, memory_id)
    assert list(keywords.matches(connection, ["drawer"], scope_of(connection, ADA), 9)) == [record.seq]
    assert connection.execute("SELECT kind FROM jobs").fetchall() == [("extract",)]
    assert store.count(connection, ADA) == 1


def test_vectors_and_entities_follow_in_the_background(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    memory_id = engine.add(ADA, "my kitten sleeps in Oslo", wait=True).added.id
    engine.delete(ADA, memory_id)
    engine.restore(ADA, memory_id)
    engine.indexer.drain()
    assert indexed(engine)
    assert engine.search(ADA, "kitten").mode == "hybrid"
    with engine.database.read() as connection:
        assert graph.totals(connection)["entities"] == 1


def test_an_overwritten_memory_becomes_what_it_was_before_the_change(connection: apsw.Connection) -> None:
    memory_id = add(connection, "one", metadata={"a": 1, "b": None})
    store.update(connection, ADA, memory_id, content="two", metadata={"a": None, "c": 3}, priority="low")
    record = recover.restore(connection, ADA, memory_id)
    assert (record.content, record.metadata, record.priority) == ("one", {"a": 1, "b": None}, "medium")
    assert actions(connection, memory_id) == ["created", "updated", "restored"]
    again = recover.restore(connection, ADA, memory_id)
    assert (again.content, again.metadata, again.priority) == ("two", {"b": None, "c": 3}, "low")


def test_any_version_can_be_chosen(connection: apsw.Connection) -> None:
    memory_id = add(connection, "one")
    for text in ("two", "three"):
        store.update(connection, ADA, memory_id, content=text)
    assert recover.restore(connection, ADA, memory_id, version=1).content == "one"
    store.delete(connection, ADA, memory_id)
    assert recover.restore(connection, ADA, memory_id, version=2).content == "two"
    assert actions(connection, memory_id) == ["created", "updated", "updated", "restored", "deleted", "restored"]


def test_the_version_that_is_there_already_leaves_no_trace(connection: apsw.Connection) -> None:
    memory_id = add(connection, "one")
    recover.restore(connection, ADA, memory_id, version=1)
    assert actions(connection, memory_id) == ["created"]


def test_a_merged_memory_comes_back_beside_the_one_that_says_the_same(connection: apsw.Connection) -> None:
    first = add(connection, "Tea is in the drawer")
    second = store.insert(connection, NewMemory(ADA, "tea is in the drawer!"), check_duplicates=False)
    history.append(connection, "merged", seq=second.seq)
    connection.execute("DELETE FROM memories WHERE seq = ?", (second.seq,))
    record = recover.restore(connection, ADA, second.id)
    assert record.content == "tea is in the drawer!"
    assert store.find(connection, ADA, first).content == "Tea is in the drawer"
    assert actions(connection, second.id) == ["created", "merged", "restored"]


@pytest.mark.parametrize("deleted", [True, False])
def test_a_text_that_another_memory_has_by_now_is_refused_or_made_a_copy(
    connection: apsw.Connection, deleted: bool
) -> None:
    memory_id = add(connection, "Tea is in the drawer")
    if deleted:
        store.delete(connection, ADA, memory_id)
    else:
        store.update(connection, ADA, memory_id, content="Coffee is in the cellar")
    other = add(connection, "tea is in the drawer")
    with pytest.raises(InvalidParameters, match=other):
        recover.restore(connection, ADA, memory_id)
    assert recover.restore(connection, ADA, memory_id, as_copy=True).content == "Tea is in the drawer"
    assert store.count(connection, ADA) == 2


def test_another_users_same_text_is_no_obstacle(connection: apsw.Connection) -> None:
    memory_id = add(connection, "Tea is in the drawer")
    store.delete(connection, ADA, memory_id)
    add(connection, "Tea is in the drawer", BEN)
    assert recover.restore(connection, ADA, memory_id).id == memory_id


def test_metadata_alone_comes_back_where_a_copy_has_the_text(connection: apsw.Connection) -> None:
    memory_id = add(connection, "tea", metadata={"a": 1})
    store.insert(connection, NewMemory(ADA, "tea"), check_duplicates=False)
    store.update(connection, ADA, memory_id, metadata={"a": 2})
    assert recover.restore(connection, ADA, memory_id).metadata == {"a": 1}


def test_what_cannot_be_brought_back_is_told(connection: apsw.Connection) -> None:
    memory_id = add(connection, "one")
    with pytest.raises(InvalidParameters, match="nothing to restore"):
        recover.restore(connection, ADA, memory_id)
    with pytest.raises(InvalidParameters, match="1 to 1"):
        recover.restore(connection, ADA, memory_id, version=2)
    for unknown in (new_id(), "abc", "a\udc00"):
        with pytest.raises(MemoryNotFound):
            recover.restore(connection, ADA, unknown)
    with pytest.raises(MemoryNotFound):
        recover.restore(connection, BEN, memory_id)
