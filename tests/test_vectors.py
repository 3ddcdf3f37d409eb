"""Nearest neighbours against brute force in numpy, and the jobs that say which vectors are still owed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np
import pytest
from conftest import DIMENSION, tiny_vector
from numpy.typing import NDArray

from r3_lite import jobs, store, vectors
from r3_lite.codes import HeldCodes
from r3_lite.db import Database
from r3_lite.errors import StorageError
from r3_lite.filters import EVERYTHING, Clause, compile_filter
from r3_lite.jobs import Job
from r3_lite.scope import scope_of
from r3_lite.store import NewMemory

Matrix = NDArray[np.float32]
ALICE, BOB = "alice", "bob"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        yield connection


@pytest.fixture
def space(connection: apsw.Connection) -> int:
    return vectors.open_space(connection, "tiny", DIMENSION, "tiny-1")


def unit(rows: Matrix) -> Matrix:
    normed: Matrix = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return normed


def add(connection: apsw.Connection, content: str, user_id: str = ALICE, **more: Any) -> int:
    return store.insert(connection, NewMemory(user_id, content, **more), near=False).seq


def due(connection: apsw.Connection, space: int, limit: int) -> list[Job]:
    """Return the memories that are owed vectors now; what else they are owed does not matter here."""
    return [job for job in jobs.due(connection, space, limit) if job.embed]


def embed(connection: apsw.Connection, space: int, limit: int = 10_000) -> int:
    """Give every due job the tiny model's vectors, one a paragraph."""
    owed = due(connection, space, limit)
    done = {job: [tiny_vector(part).tobytes() for part in job.content.split("\n\n")] for job in owed}
    return vectors.store_vectors(connection, space, done)


def near(connection: apsw.Connection, space: int, query: str, user_id: str = ALICE, **more: Any) -> dict[int, float]:
    where, limit = more.get("where", EVERYTHING), more.get("limit", 100)
    return nearest(connection, space, tiny_vector(query), user_id, where, limit)


def nearest(
    connection: apsw.Connection, space: int, query: Matrix, user_id: str, where: Clause, limit: int
) -> dict[int, float]:
    scope = scope_of(connection, user_id, where)
    found = vectors.nearest(connection, HeldCodes(), space, query.tobytes(), scope, limit)
    return dict(found[:limit])


@dataclass
class Field:
    """Many memories with random vectors: which memory and user each vector belongs to."""

    space: int
    matrix: Matrix
    memories: list[int]
    users: list[str]
    topics: list[int]

    def cosines(self, query: Matrix, user: str, topic: int | None = None) -> dict[int, float]:
        """Brute force: the cosine of every memory of the user, the best of its vectors."""
        best: dict[int, float] = {}
        for memory, owner, kind, cosine in zip(
            self.memories, self.users, self.topics, self.matrix @ query, strict=True
        ):
            if owner == user and topic in (None, kind):
                best[memory] = max(best.get(memory, -2.0), float(cosine))
        return best

    def top(self, query: Matrix, user: str, limit: int, topic: int | None = None) -> list[tuple[int, float]]:
        every = self.cosines(query, user, topic)
        return sorted(every.items(), key=lambda pair: pair[1], reverse=True)[:limit]


def make_field(connection: apsw.Connection, counts: dict[str, int], dimension: int, chunks: Sequence[int]) -> Field:
    """Store memories of several users in random order, with as many vectors each as `chunks` says in turn.

    The vectors lie in clusters, as those of texts do: random ones are all equally far from each other.
    """
    chance = np.random.default_rng(5)
    centres = chance.standard_normal((40, dimension))
    owners = [user for user, number in counts.items() for _ in range(number)]
    chance.shuffle(owners)
    space = vectors.open_space(connection, "random", dimension, f"random-{dimension}")
    field = Field(space, np.zeros((0, dimension), np.float32), [], [], [])
    done: dict[Job, list[bytes]] = {}
    rows: list[Matrix] = []
    for n, user in enumerate(owners):
        seq = add(connection, f"memory {n}", user, metadata={"topic": n % 7})
        own = unit(centres[chance.integers(40)] + 0.6 * chance.standard_normal((chunks[n % len(chunks)], dimension)))
        done[Job(seq, user, f"memory {n}", embed=True, extract=False)] = [row.tobytes() for row in own]
        rows.append(own)
        field.memories += [seq] * len(own)
        field.users += [user] * len(own)
        field.topics += [n % 7] * len(own)
    assert vectors.store_vectors(connection, space, done) == len(owners)
    field.matrix = np.concatenate(rows)
    return field


def queries(field: Field, number: int) -> list[Matrix]:
    chance = np.random.default_rng(9)
    picked = chance.choice(len(field.matrix), number, replace=False)
    return [unit(field.matrix[row] + 0.03 * chance.standard_normal(field.matrix.shape[1])) for row in picked]


def assert_same(found: dict[int, float], expected: list[tuple[int, float]]) -> None:
    assert list(found.values()) == pytest.approx([cosine for _, cosine in expected], abs=1e-5)
    assert set(found) == {memory for memory, _ in expected}


# Nearest neighbours


def test_hand_made_vectors_have_hand_computed_cosines(connection: apsw.Connection, space: int) -> None:
    cat, both, dog = (add(connection, text) for text in ("cat", "cat dog", "dog"))
    embed(connection, space)
    assert near(connection, space, "cat") == pytest.approx({cat: 1, both: 1 / np.sqrt(2), dog: 0}, abs=1e-6)
    assert near(connection, space, "cat cat dog") == pytest.approx(
        {both: 3 / np.sqrt(10), cat: 2 / np.sqrt(5), dog: 1 / np.sqrt(5)}, abs=1e-6
    )


def test_results_are_the_nearest_first_and_no_more_than_asked(connection: apsw.Connection, space: int) -> None:
    seqs = [add(connection, "cat " * n + "dog") for n in range(6)]
    embed(connection, space)
    assert list(near(connection, space, "cat", limit=3)) == [seqs[5], seqs[4], seqs[3]]


def test_the_newer_of_equally_near_memories_comes_first(connection: apsw.Connection, space: int) -> None:
    seqs = [add(connection, f"cat {n}") for n in range(20)]
    embed(connection, space)
    for where in (EVERYTHING, compile_filter({"other": None})):
        assert list(near(connection, space, "cat", where=where)) == seqs[::-1]


def test_the_best_part_of_a_long_text_counts(connection: apsw.Connection, space: int) -> None:
    long, short = add(connection, "dog\n\ntea\n\ncat"), add(connection, "cat dog")
    embed(connection, space)
    assert near(connection, space, "cat") == pytest.approx({long: 1, short: 1 / np.sqrt(2)}, abs=1e-6)


def test_small_stores_are_searched_exactly(connection: apsw.Connection) -> None:
    field = make_field(connection, {ALICE: 150, BOB: 150}, dimension=64, chunks=(1, 3, 2))
    for query in queries(field, 20):
        found = nearest(connection, field.space, query, ALICE, EVERYTHING, 20)
        assert_same(found, field.top(query, ALICE, 20))


def test_filters_are_searched_exactly(connection: apsw.Connection) -> None:
    field = make_field(connection, {ALICE: 1500, BOB: 500}, dimension=32, chunks=(1, 2))
    for topic, query in enumerate(queries(field, 7)):
        where = compile_filter({"topic": topic})
        found = nearest(connection, field.space, query, ALICE, where, 15)
        assert_same(found, field.top(query, ALICE, 15, topic))


def test_large_stores_are_searched_well_and_scored_exactly(connection: apsw.Connection) -> None:
    """Above 4096 vectors, the most that one vector query may return."""
    field = make_field(connection, {ALICE: 4600, BOB: 500}, dimension=128, chunks=(1,))
    recalls = []
    for query in queries(field, 15):
        for limit in (10, 1500):
            found = nearest(connection, field.space, query, ALICE, EVERYTHING, limit)
            exact = field.cosines(query, ALICE)
            assert len(found) == limit
            assert list(found.values()) == sorted(found.values(), reverse=True)
            assert found == pytest.approx({memory: exact[memory] for memory in found}, abs=1e-5)
            if limit == 10:
                recalls.append(len(set(found) & {memory for memory, _ in field.top(query, ALICE, 10)}) / 10)
    assert np.mean(recalls) > 0.95


def test_a_distant_memory_is_found_behind_many_near_ones_of_another_user(
    connection: apsw.Connection, space: int
) -> None:
    for n in range(5000):
        add(connection, f"cat {n}", BOB)
    mine = add(connection, "tea tea cat")
    embed(connection, space)
    assert near(connection, space, "cat", limit=5) == pytest.approx({mine: 1 / np.sqrt(5)}, abs=1e-6)


def test_a_distant_memory_is_found_behind_many_near_ones_outside_the_filter(
    connection: apsw.Connection, space: int
) -> None:
    for n in range(1000):
        add(connection, f"cat {n}")
    mine = add(connection, "tea tea cat", metadata={"topic": "mine"})
    embed(connection, space)
    found = near(connection, space, "cat", where=compile_filter({"topic": "mine"}), limit=5)
    assert found == pytest.approx({mine: 1 / np.sqrt(5)}, abs=1e-6)


def test_other_memories_are_found_behind_one_long_text_with_very_many_parts(
    connection: apsw.Connection, space: int
) -> None:
    long = add(connection, "\n\n".join(["cat"] * 1000))
    others = [add(connection, f"cat {'dog ' * n}") for n in range(1, 6)]
    embed(connection, space)
    assert list(near(connection, space, "cat", limit=6)) == [long, *others]


# vec0 keeps the first twelve bytes of a text with the vector, the rest elsewhere.
LIKE_NAMES = ["a", "a" * 12, "a" * 13, "a" * 12 + "b", "a" * 256, "日本語のとても長い名前", "x' OR 1=1", "%", "a\0b"]


@pytest.mark.parametrize("user_id", LIKE_NAMES)
def test_users_with_like_names_are_kept_apart(connection: apsw.Connection, space: int, user_id: str) -> None:
    seqs = {name: add(connection, "cat", name) for name in LIKE_NAMES}
    embed(connection, space)
    assert near(connection, space, "cat", user_id) == pytest.approx({seqs[user_id]: 1})


def test_nothing_is_near_in_an_empty_space(connection: apsw.Connection, space: int) -> None:
    add(connection, "cat")
    assert near(connection, space, "cat") == {}
    assert vectors.cosines(connection, space, tiny_vector("cat").tobytes(), []) == {}


def test_cosines_are_exact_for_the_memories_asked_for(connection: apsw.Connection, space: int) -> None:
    cat, dog, bare = (add(connection, text) for text in ("cat\n\ntea", "dog", "car"))
    embed(connection, space, limit=2)
    found = vectors.cosines(connection, space, tiny_vector("tea").tobytes(), [cat, dog, bare, 999])
    assert found == pytest.approx({cat: 1, dog: 0})


def test_a_memory_is_compared_together_with_the_one_before_it(connection: apsw.Connection, space: int) -> None:
    """The sum of two unit vectors: "cat" before "dog" is as near to "cat dog" as can be."""
    before, after, alone = (add(connection, text) for text in ("car\n\ncat", "dog\n\nhouse", "tea"))
    embed(connection, space)
    query = tiny_vector("cat dog").tobytes()
    found = vectors.cosines_in_context(connection, space, query, {after: before, alone: 999, before: alone})
    # Of the one before the last part counts, of the memory itself the best.
    assert found == pytest.approx({after: 1, before: tiny_vector("tea cat") @ tiny_vector("cat dog")})
    assert vectors.cosines_in_context(connection, space, query, {}) == {}


def test_vectors_that_cancel_each_other_out_are_near_to_nothing(connection: apsw.Connection, space: int) -> None:
    first, second = add(connection, "cat"), add(connection, "dog")
    row = tiny_vector("cat")
    one, other = due(connection, space, 2)
    done = {one: [row.tobytes()], other: [(-row).tobytes()]}
    vectors.store_vectors(connection, space, done)
    assert vectors.cosines_in_context(connection, space, row.tobytes(), {second: first}) == {second: 0}


# Spaces


def test_a_space_is_made_once_and_owes_a_vector_to_every_memory(connection: apsw.Connection) -> None:
    seqs = [add(connection, text) for text in ("cat", "dog")]
    first = vectors.open_space(connection, "one", DIMENSION, "one")
    assert vectors.open_space(connection, "one", DIMENSION, "one") == first
    assert vectors.find_space(connection, "one") == first
    assert vectors.find_space(connection, "two") is None
    assert [job.memory for job in due(connection, first, 10)] == seqs


def test_spaces_never_mix(connection: apsw.Connection, space: int) -> None:
    """Two models of the same dimension: a query sees the vectors of its own only."""
    memory = add(connection, "cat")
    embed(connection, space)
    other = vectors.open_space(connection, "other", DIMENSION, "other-1")
    assert near(connection, other, "cat") == {}
    (job,) = due(connection, other, 10)
    vectors.store_vectors(connection, other, {job: [tiny_vector("dog").tobytes()]})
    assert near(connection, other, "cat") == pytest.approx({memory: 0})
    assert near(connection, space, "cat") == pytest.approx({memory: 1})


def test_spaces_of_other_dimensions_live_side_by_side(connection: apsw.Connection, space: int) -> None:
    memory = add(connection, "cat")
    embed(connection, space)
    large = vectors.open_space(connection, "large", 768, "large-1")
    (job,) = due(connection, large, 10)
    row = unit(np.ones(768, np.float32))
    vectors.store_vectors(connection, large, {job: [row.tobytes()]})
    assert nearest(connection, large, row, ALICE, EVERYTHING, 5) == pytest.approx({memory: 1})
    assert near(connection, space, "cat") == pytest.approx({memory: 1})


def test_a_vector_of_another_dimension_is_refused(database: Database) -> None:
    def store_wrong() -> None:
        with database.write() as connection:
            space = vectors.open_space(connection, "tiny", DIMENSION, "tiny-1")
            add(connection, "cat")
            (job,) = due(connection, space, 1)
            vectors.store_vectors(connection, space, {job: [np.ones(16, np.float32).tobytes()]})

    with pytest.raises(StorageError):
        store_wrong()


def test_a_dropped_space_leaves_nothing(connection: apsw.Connection, space: int) -> None:
    add(connection, "cat")
    embed(connection, space)
    add(connection, "dog")
    vectors.drop_space(connection, space)
    for table in ("spaces", "chunks", "jobs WHERE kind = 'embed'"):
        assert connection.execute(f"SELECT count(*) FROM {table}").get == 0
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'bits%'").get == 0


# What is owed


def owed(connection: apsw.Connection, space: int) -> list[int]:
    return [job.memory for job in due(connection, space, 100)]


def test_a_new_text_is_owed_and_paid_once(connection: apsw.Connection, space: int) -> None:
    memory = add(connection, "cat")
    assert not vectors.is_indexed(connection, space, memory)
    assert jobs.of_memory(connection, space, memory) == Job(memory, ALICE, "cat", embed=True, extract=True)
    assert embed(connection, space) == 1
    assert vectors.is_indexed(connection, space, memory)
    assert owed(connection, space) == []
    assert jobs.of_memory(connection, space, memory) == Job(memory, ALICE, "cat", embed=False, extract=True)


def test_a_changed_text_drops_its_vector_at_once_and_is_owed_again(connection: apsw.Connection, space: int) -> None:
    seq = add(connection, "cat")
    embed(connection, space)
    record = store.fetch(connection, [seq])[seq]
    store.update(connection, ALICE, record.id, content="dog")
    assert near(connection, space, "cat") == {}
    assert owed(connection, space) == [seq]
    embed(connection, space)
    assert near(connection, space, "dog") == pytest.approx({seq: 1})


def test_a_change_of_metadata_owes_nothing(connection: apsw.Connection, space: int) -> None:
    seq = add(connection, "cat")
    embed(connection, space)
    record = store.fetch(connection, [seq])[seq]
    store.update(connection, ALICE, record.id, metadata={"a": 1}, priority="high")
    assert owed(connection, space) == []
    assert near(connection, space, "cat") == pytest.approx({seq: 1})


def test_a_text_that_changed_while_it_was_embedded_stays_owed(connection: apsw.Connection, space: int) -> None:
    changed, gone = add(connection, "cat"), add(connection, "tea")
    owing = due(connection, space, 10)
    records = store.fetch(connection, [changed, gone])
    store.update(connection, ALICE, records[changed].id, content="dog")
    store.delete(connection, ALICE, records[gone].id)
    stale = {job: [tiny_vector(job.content).tobytes()] for job in owing}
    assert vectors.store_vectors(connection, space, stale) == 0
    assert owed(connection, space) == [changed]
    assert near(connection, space, "cat") == {}


def test_vectors_stored_twice_are_stored_once(connection: apsw.Connection, space: int) -> None:
    seq = add(connection, "cat")
    job = Job(seq, ALICE, "cat", embed=True, extract=True)
    for _ in range(2):
        vectors.store_vectors(connection, space, {job: [tiny_vector("cat").tobytes()] * 2})
    assert connection.execute("SELECT count(*) FROM chunks").get == 2
    assert vectors.out_of_step(connection, space) == 0


def test_stored_vectors_move_the_generation_of_their_users_only(connection: apsw.Connection, space: int) -> None:
    add(connection, "cat")
    add(connection, "dog", BOB)
    embed(connection, space, limit=1)
    before = store.generation(connection, ALICE), store.generation(connection, BOB)
    embed(connection, space)
    assert (store.generation(connection, ALICE), store.generation(connection, BOB)) == (before[0], before[1] + 1)


def test_deleting_memories_deletes_their_vectors_and_jobs(connection: apsw.Connection, space: int) -> None:
    ids = [store.fetch(connection, [s])[s].id for s in (add(connection, f"cat {n}") for n in range(6))]
    add(connection, "dog", BOB)
    embed(connection, space, limit=4)
    store.delete(connection, ALICE, ids[0])
    store.delete(connection, ALICE, ids[5])
    assert connection.execute("SELECT count(*) FROM chunks").get == 3
    store.delete_all(connection, ALICE)
    counts = [connection.execute(f"SELECT count(*) FROM {t}").get for t in ("chunks", "jobs")]
    assert counts == [0, 2]


def test_a_memory_deleted_by_a_program_without_foreign_keys_leaves_no_vector_in_answers(
    connection: apsw.Connection, space: int
) -> None:
    gone, kept = add(connection, "cat"), add(connection, "cat dog")
    embed(connection, space)
    connection.execute("COMMIT; PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")
    connection.execute("DELETE FROM memories WHERE seq = ?", (gone,))
    assert list(near(connection, space, "cat")) == [kept]
    assert vectors.out_of_step(connection, space) == 0
    assert connection.execute("SELECT count(*) FROM chunks").get == 1


def test_space_of_deleted_vectors_is_given_back(database: Database) -> None:
    chance = random.Random(1)
    with database.write() as connection:
        field = make_field(connection, {ALICE: 2000}, dimension=384, chunks=(1,))
        records = store.fetch(connection, field.memories)
    full = database.connection().execute("VACUUM; PRAGMA page_count").get
    kept = set(chance.sample(field.memories, 200))
    query = field.matrix[field.memories.index(min(kept))]
    with database.write() as connection:
        for seq in set(field.memories) - kept:
            store.delete(connection, ALICE, records[seq].id)
        connection.execute("DELETE FROM history")
    assert database.connection().execute("VACUUM; PRAGMA page_count").get < full / 4
    with database.read() as connection:
        found = nearest(connection, field.space, query, ALICE, EVERYTHING, 200)
    assert set(found) == kept


# Repair


def broken(connection: apsw.Connection, space: int, how: str) -> int:
    """Break derived data by SQL in one way; return how many memories are without a vector after it."""
    match how:
        case "vectors deleted without a trace":
            trigger = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'chunk_deleted'").get
            connection.execute("DROP TRIGGER chunk_deleted; DELETE FROM chunks WHERE id <= 3")
            connection.execute(trigger)
            return 3
        case _:
            connection.execute("DELETE FROM jobs")
            return 1


@pytest.mark.parametrize(
    "how",
    [
        "vectors deleted without a trace",
        "jobs deleted",
    ],
)
def test_derived_data_that_was_broken_is_noticed_and_mended(connection: apsw.Connection, space: int, how: str) -> None:
    seqs = [add(connection, f"cat {'dog ' * n}") for n in range(8)]
    embed(connection, space, limit=7 if how == "jobs deleted" else 8)
    expected = near(connection, space, "cat")
    assert vectors.out_of_step(connection, space) == 0
    bare = broken(connection, space, how)
    assert vectors.without_vector(connection, space) == bare
    assert vectors.out_of_step(connection, space) > 0
    generation = store.generation(connection, ALICE)
    assert vectors.heal(connection, space) > 0
    assert store.generation(connection, ALICE) > generation
    embed(connection, space)
    assert vectors.out_of_step(connection, space) == 0
    assert vectors.without_vector(connection, space) == 0
    found = near(connection, space, "cat")
    assert set(found) == set(seqs)
    if how != "jobs deleted":
        assert found == pytest.approx(expected, abs=1e-6)


def test_mending_what_is_sound_changes_nothing(connection: apsw.Connection, space: int) -> None:
    add(connection, "cat")
    embed(connection, space)
    add(connection, "dog")
    before = store.generation(connection, ALICE)
    assert vectors.heal(connection, space) == 0
    assert store.generation(connection, ALICE) == before


def test_without_the_extension_texts_can_be_changed_and_deleted(database: Database, tmp_path: Any) -> None:
    with database.write() as connection:
        space = vectors.open_space(connection, "tiny", DIMENSION, "tiny-1")
        first, second = add(connection, "cat"), add(connection, "dog")
        embed(connection, space)
        records = store.fetch(connection, [first, second])
    assert database.path is not None
    plain = Database(database.path, extension=str(tmp_path / "missing"))
    with plain.write() as connection:
        store.update(connection, ALICE, records[first].id, content="tea")
        store.delete(connection, ALICE, records[second].id)
    with database.write() as connection:
        assert near(connection, space, "cat") == {}
        assert vectors.out_of_step(connection, space) == 0
        embed(connection, space)
        assert near(connection, space, "tea") == pytest.approx({first: 1})
        assert vectors.out_of_step(connection, space) == 0
