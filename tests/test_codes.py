"""Vectors in two bits a number against brute force in numpy, and what a process holds of them against the file."""

from typing import Any

import apsw
import numpy as np
import pytest
from conftest import DIMENSION
from numpy.typing import NDArray

from r3_lite import codes, store, vectors
from r3_lite.codes import Codes, HeldCodes, code_of
from r3_lite.db import Database
from r3_lite.jobs import Job
from r3_lite.store import NewMemory

ALICE, BOB = "alice", "bob"
Matrix = NDArray[np.float32]


@pytest.fixture
def space(database: Database) -> int:
    with database.write() as connection:
        return vectors.open_space(connection, "tiny", DIMENSION, "tiny-1")


def unit(rows: Any) -> Matrix:
    normed: Matrix = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype("<f4")
    return normed


def add(database: Database, space: int, *rows: Matrix, user_id: str = ALICE) -> int:
    """Store a memory with these vectors; return its row."""
    with database.write() as connection:
        seq = store.insert(connection, NewMemory(user_id, f"text {np.random.default_rng().random()}"), near=False).seq
        content = connection.execute("SELECT content FROM memories WHERE seq = ?", (seq,)).get
        job = Job(seq, user_id, content, embed=True, extract=False)
        vectors.store_vectors(connection, space, {job: [row.tobytes() for row in rows]})
    return seq


def held(connection: apsw.Connection, memory: HeldCodes, space: int, user_id: str = ALICE) -> list[int]:
    memories: list[int] = memory.of(connection, space, user_id).memories.tolist()
    return memories


def field(number: int, dimension: int) -> tuple[Matrix, Codes]:
    """Vectors in clusters, as those of texts, and their codes, laid out as a process holds them."""
    chance = np.random.default_rng(3)
    centres = chance.standard_normal((60, dimension))[chance.integers(60, size=number)]
    rows = unit(centres + 0.8 * chance.standard_normal((number, dimension)))
    columns = codes._Columns()
    columns._append(tuple(range(1, number + 1)), tuple(range(number)), tuple(code_of(row.tobytes()) for row in rows))
    return rows, columns.codes()


def test_a_code_tells_sign_and_size_of_each_number() -> None:
    # A number is large from .9816 / √8 = .347 on.
    row = np.array([0.5, 0.1, -0.1, -0.5, 0.4, -0.4, 0.3, -0.3], "<f4")
    # Signs + + - - + - + -; sign and size agree for the large positive and the small negative.
    assert code_of(row.tobytes()) == bytes([0b11001010, 0b10101001])


@pytest.mark.parametrize("dimension", [64, 384])
def test_the_nearest_by_code_hold_nearly_all_of_the_nearest(dimension: int) -> None:
    rows, all_codes = field(12_000, dimension)
    chance = np.random.default_rng(4)
    found = 0
    for _ in range(20):
        query = unit(rows[chance.integers(len(rows))] + 0.5 * unit(chance.standard_normal((1, dimension)))[0])
        nearest = np.argsort(-(rows @ query))[:20]
        near = all_codes.nearest(query.tobytes(), 200)
        assert len(near) == 200
        found += len(set(near.memories.tolist()) & set(nearest.tolist()))
    assert found >= 0.99 * 20 * 20


def test_few_vectors_are_all_near() -> None:
    rows, all_codes = field(30, 64)
    assert all_codes.nearest(rows[0].tobytes(), 30).ids.tolist() == list(range(1, 31))


def test_products_of_codes_follow_the_decoded_vectors() -> None:
    rows, all_codes = field(500, 64)
    query = rows[7]
    signs = np.where(rows > 0, 1, -1)
    sizes = np.where(np.abs(rows) > 0.9816 / 8, 1.5104, 0.4528)
    levels = np.rint(query * (7 / np.abs(query).max()))
    products = all_codes._products(query)
    assert np.corrcoef(products, (signs * sizes) @ levels)[0, 1] == pytest.approx(1)


def test_codes_of_some_memories_are_theirs_alone() -> None:
    _, all_codes = field(50, 64)
    some = all_codes.of_memories({3, 40, 999})
    assert (some.memories.tolist(), some.ids.tolist()) == ([3, 40], [4, 41])
    assert (some.words == all_codes.words[:, [3, 40]]).all()


def test_a_process_sees_what_others_add_and_not_what_other_users_have(database: Database, space: int) -> None:
    memory, row = HeldCodes(), unit(np.ones(DIMENSION))
    with database.read() as connection:
        assert held(connection, memory, space) == []
    first = add(database, space, row)
    add(database, space, row, user_id=BOB)
    with database.read() as connection:
        assert held(connection, memory, space) == [first]
    second = add(database, space, row, -row)
    with database.read() as connection:
        assert held(connection, memory, space) == [first, second, second]


def test_codes_handed_out_never_change(database: Database, space: int) -> None:
    memory, rows = HeldCodes(), unit(np.random.default_rng(1).standard_normal((40, DIMENSION)))
    add(database, space, rows[0])
    with database.read() as connection:
        early = memory.of(connection, space, ALICE)
    words = early.words.copy()
    for row in rows[1:]:
        add(database, space, row)
        with database.read() as connection:
            memory.of(connection, space, ALICE)
    assert len(early) == 1
    assert (early.words == words).all()
    with database.read() as connection:
        now = memory.of(connection, space, ALICE)
        whole = HeldCodes().of(connection, space, ALICE)
    assert now.ids.tolist() == whole.ids.tolist()
    assert (now.words == whole.words).all()


def test_only_the_users_who_asked_last_are_held(database: Database, space: int) -> None:
    memory, row = HeldCodes(most_vectors=3), unit(np.ones(DIMENSION))
    for user in (ALICE, ALICE, BOB, BOB):
        add(database, space, row, user_id=user)
    with database.read() as connection:
        for user in (ALICE, BOB, ALICE):
            assert len(held(connection, memory, space, user)) == 2
    assert len(memory._held) == 1


def test_what_a_transaction_has_not_committed_is_not_kept(database: Database, space: int) -> None:
    memory, row = HeldCodes(), unit(np.ones(DIMENSION))
    with database.write() as connection:
        seq = store.insert(connection, NewMemory(ALICE, "never"), near=False).seq
        vectors.store_vectors(connection, space, {Job(seq, ALICE, "never", True, False): [row.tobytes()]})
        assert held(connection, memory, space) == [seq]
        connection.execute("ROLLBACK; BEGIN")
    kept = add(database, space, -row)
    with database.read() as connection:
        assert held(connection, memory, space) == [kept]
        assert memory.of(connection, space, ALICE).words[0, 0] == codes._columns(code_of((-row).tobytes())[:1])[0, 0]


def test_a_file_restored_from_a_copy_is_read_anew(database: Database, space: int) -> None:
    memory, row = HeldCodes(), unit(np.ones(DIMENSION))
    copy = apsw.Connection(":memory:")
    with copy.backup("main", database.connection(), "main") as backup:
        backup.step()
    add(database, space, row)
    with database.read() as connection:
        held(connection, memory, space)
    with database.connection().backup("main", copy, "main") as backup:
        backup.step()
    # The same id of a chunk, another vector.
    second = add(database, space, -row)
    with database.read() as connection:
        now = memory.of(connection, space, ALICE)
    assert now.memories.tolist() == [second]
    assert now.words[0, 0] == codes._columns(code_of((-row).tobytes())[:1])[0, 0]
