"""Counts of accesses: written in batches, never in anybody's way."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from conftest import eventually

from r3_lite import accesses, store
from r3_lite.accesses import Tally
from r3_lite.db import Database
from r3_lite.engine import Engine
from r3_lite.errors import MemoryNotFound
from r3_lite.store import NewMemory

MakeEngine = Callable[..., Engine]


@pytest.fixture
def seqs(database: Database) -> list[int]:
    """Three memories of Ada, the oldest first: low, medium, high."""
    with database.write() as connection:
        return [
            store.insert(connection, NewMemory("ada", f"{priority} text", priority=priority)).seq
            for priority in ("low", "medium", "high")
        ]


def counted(database: Database, seqs: list[int]) -> dict[int, int]:
    with database.read() as connection:
        return accesses.counts(connection, seqs)


def noted(*seqs: int) -> Tally:
    tally = Tally()
    for seq in seqs:
        tally.note(seq)
    return tally


def test_flushes_add_up(database: Database, seqs: list[int]) -> None:
    one, two, _ = seqs
    tally = noted(one, two, one)
    assert tally.pending() == {one: 2, two: 1}
    tally.flush(database)
    assert tally.pending() == {}
    noted(one).flush(database)
    assert counted(database, seqs) == {one: 3, two: 1}


def test_the_time_of_the_last_access_only_moves_on(database: Database, seqs: list[int]) -> None:
    with database.write() as connection:
        for last in ("2026-02-01", "2026-01-01"):
            accesses.add(connection, {seqs[0]: 1}, {seqs[0]: last})
        assert connection.execute("SELECT count, last_at FROM accesses").get == (2, "2026-02-01")


def test_a_flush_moves_the_generation_for_the_ranking_sees_it_and_no_edits(database: Database, seqs: list[int]) -> None:
    def marks() -> tuple[int, int]:
        with database.read() as connection:
            return store.generation(connection, "ada"), store.edits(connection, "ada")

    before = marks()
    noted(*seqs).flush(database)
    assert counted(database, seqs) == dict.fromkeys(seqs, 1)
    assert marks() == (before[0] + 1, before[1])


def test_nothing_to_flush_opens_no_file(tmp_path: Path) -> None:
    Tally().flush(Database(tmp_path / "none.db"))
    assert not list(tmp_path.iterdir())


def test_a_flush_leaves_out_memories_that_are_gone(database: Database, seqs: list[int]) -> None:
    tally = noted(*seqs)
    with database.write() as connection:
        store.delete_all(connection, "ada")
        kept = store.insert(connection, NewMemory("ada", "another text")).seq
    tally.note(kept)
    tally.flush(database)
    assert counted(database, [*seqs, kept]) == {kept: 1}


def test_a_flush_that_meets_a_lock_keeps_the_counts_for_the_next(
    database: Database, db_path: Path, seqs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accesses, "PATIENCE", 0.01)
    tally = noted(*seqs)
    other = apsw.Connection(str(db_path))
    other.execute("BEGIN IMMEDIATE")
    tally.flush(database)
    assert tally.pending() == dict.fromkeys(seqs, 1)
    other.execute("ROLLBACK")
    other.close()
    tally.note(seqs[0])
    tally.flush(database)
    assert counted(database, seqs) == {seqs[0]: 2, seqs[1]: 1, seqs[2]: 1}


@pytest.mark.parametrize("foreign_keys", ["on", "off"])
def test_the_count_of_a_memory_goes_with_it(
    foreign_keys: str, database: Database, db_path: Path, seqs: list[int]
) -> None:
    noted(*seqs).flush(database)
    other = apsw.Connection(str(db_path))
    other.execute(f"PRAGMA foreign_keys = {foreign_keys}")
    other.execute("DELETE FROM memories WHERE seq = ?", (seqs[0],))
    assert other.execute("SELECT memory FROM accesses").fetchall() == [(seqs[1],), (seqs[2],)]
    other.close()


def test_the_most_used_come_first_then_by_priority_then_the_newest(database: Database, seqs: list[int]) -> None:
    low, medium, high = seqs
    with database.write() as connection:
        newer = store.insert(connection, NewMemory("bob", "bob's", priority="high")).seq
    noted(low, low, medium).flush(database)
    with database.read() as connection:
        everybody = accesses.ranked(connection, 10, {medium: 2})
        assert [(m.seq, m.accesses) for m in everybody] == [(medium, 3), (low, 2), (newer, 0), (high, 0)]
        assert [m.seq for m in accesses.ranked(connection, 2, {}, "ada")] == [low, medium]
        assert accesses.ranked(connection, 0, {}) == []


def test_edits_move_with_changes_and_removals_and_with_nothing_else(database: Database) -> None:
    def edits() -> list[int]:
        with database.read() as connection:
            return [store.edits(connection, user) for user in ("ada", "bob", "nobody")]

    with database.write() as connection:
        ids = [store.insert(connection, NewMemory(user, f"text of {user}")).id for user in ("ada", "bob")]
        store.insert(connection, NewMemory("ada", "another"))
    assert edits() == [0, 0, 0]
    with database.write() as connection:
        store.update(connection, "ada", ids[0], priority="low")
    assert edits() == [1, 0, 0]
    with database.write() as connection:
        connection.execute("UPDATE memories SET user_id = 'bob' WHERE id = ?", (ids[0],))
    assert edits() == [2, 1, 0]
    with database.write() as connection:
        store.delete(connection, "bob", ids[1])
    assert edits() == [2, 2, 0]


def test_reads_and_updates_by_id_are_counted_and_written_when_the_engine_closes(make_engine: MakeEngine) -> None:
    engine = make_engine(intelligence="basic")
    memory_id = engine.add(None, "a text").added.id
    for _ in range(2):
        seq = engine.get(None, memory_id).seq
    engine.update(None, memory_id, priority="low")
    with pytest.raises(MemoryNotFound):
        engine.get(None, "mem_none")
    engine.search(None, "text")
    engine.page(None, limit=10, offset=0)
    assert engine.accesses.pending() == {seq: 3}
    engine.close()
    with make_engine().database.read() as connection:
        assert accesses.counts(connection, [seq]) == {seq: 3}


def test_the_worker_writes_the_counts_now_and_then(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r3_lite.indexer.FLUSH_SECONDS", 0.01)
    engine = make_engine()
    memory_id = engine.add(None, "a cat", wait=True).added.id
    seq = engine.get(None, memory_id).seq
    eventually(lambda: not engine.accesses.pending())
    with engine.database.read() as connection:
        assert accesses.counts(connection, [seq]) == {seq: 1}
