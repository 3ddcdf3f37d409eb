"""Which memories a search may answer with, against the same question asked of every row."""

from collections.abc import Iterator

import apsw
import pytest

from r3_lite import scope, store
from r3_lite.db import Database
from r3_lite.filters import EVERYTHING, compile_filter
from r3_lite.scope import Scope, scope_of
from r3_lite.store import NewMemory

ALICE, BOB = "alice", "bob"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        for n in range(40):
            user = ALICE if n % 2 else BOB
            new = NewMemory(user, f"memory {n}", {"n": n, "even": n % 4 == 1}, priority="high" if n % 5 == 0 else "low")
            store.insert(connection, new, near=False)
        yield connection


def rows_of(connection: apsw.Connection, user_id: str) -> set[int]:
    return {seq for (seq,) in connection.execute("SELECT seq FROM memories WHERE user_id = ?", (user_id,))}


FILTERS = [
    {"n": {"$lt": 9}},
    {"even": True},
    {"priority": "high"},
    {"n": {"$ne": 3}},
    {"even": False, "n": {"$gt": 20}},
]


@pytest.mark.parametrize("few", [scope.FEW, 2], ids=["listed", "tested"])
@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_what_passes_is_the_same_listed_or_tested(
    connection: apsw.Connection, wanted: dict[str, object], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "FEW", few)
    where = compile_filter(wanted)
    found = scope_of(connection, ALICE, where)
    _, records = store.page(connection, ALICE, 100, 0, where)
    assert (found.few is None) == (len(records) > few)
    everybody = rows_of(connection, ALICE) | rows_of(connection, BOB)
    assert found.passing(everybody) == {record.seq for record in records} != set()


def test_without_a_filter_what_is_the_users_passes(connection: apsw.Connection) -> None:
    everything = scope_of(connection, ALICE)
    assert (everything.few, everything.where, everything.own) == (None, EVERYTHING, 20)
    assert everything.passing(range(100)) == rows_of(connection, ALICE)


def test_alone_in_the_file_everything_passes_without_a_look(connection: apsw.Connection) -> None:
    store.delete_all(connection, BOB)
    alone = scope_of(connection, ALICE)
    assert alone.alone
    assert alone.passing(rows_of(connection, ALICE)) == rows_of(connection, ALICE)
    assert not scope_of(connection, BOB).alone


def test_a_user_is_small_beside_many_memories_of_others(connection: apsw.Connection) -> None:
    store.insert(connection, NewMemory("carol", "hers"))
    assert [scope_of(connection, user).small for user in (ALICE, "carol", "nobody")] == [False, True, True]


def test_a_filter_by_values_of_the_metadata_reads_no_other_memory(connection: apsw.Connection) -> None:
    where = compile_filter({"even": True, "n": {"$gte": 3}})
    plan = connection.execute(
        f"EXPLAIN QUERY PLAN SELECT m.seq FROM memories AS m WHERE +m.user_id = ?1 AND {where.sql}",
        (ALICE, *where.params),
    )
    assert "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)" in {row[3] for row in plan}


def test_of_nothing_nothing_passes(connection: apsw.Connection) -> None:
    assert Scope(connection, ALICE).passing([]) == set()
