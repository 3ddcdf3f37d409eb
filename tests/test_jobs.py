"""What is still owed: in what order, how often it is tried, and how it is told. For vectors and entities alike."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, get_args

import apsw
import pytest
from conftest import DIMENSION

from r3_lite import jobs, store, vectors
from r3_lite.db import Database
from r3_lite.jobs import MAX_ATTEMPTS, Job, Kind
from r3_lite.store import NewMemory

ALICE = "alice"
KINDS: tuple[Kind, ...] = get_args(Kind)

each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        yield connection


@pytest.fixture
def space(connection: apsw.Connection) -> int:
    return vectors.open_space(connection, "tiny", DIMENSION, "tiny-1")


def add(connection: apsw.Connection, content: str, **more: Any) -> int:
    return store.insert(connection, NewMemory(ALICE, content, **more), near=False).seq


def owed(connection: apsw.Connection, space: int, kind: Kind) -> list[int]:
    return [job.memory for job in jobs.due(connection, space, 100) if kind in job.kinds]


def state(connection: apsw.Connection, space: int, kind: Kind) -> jobs.JobState:
    """Return how the only job of a kind stands."""
    (found,) = [state for state in jobs.states(connection, space, 10) if state.kind == kind]
    return found


def test_a_new_memory_is_owed_its_vector_and_its_entities_together(connection: apsw.Connection, space: int) -> None:
    memory = add(connection, "cat")
    (job,) = jobs.due(connection, space, 10)
    assert job == Job(memory, ALICE, "cat", embed=True, extract=True)
    assert job.kinds == ("embed", "extract")
    assert jobs.counts(connection, space) == {"pending": 1, "failed": 0}


def test_what_is_struck_is_owed_no_more(connection: apsw.Connection, space: int) -> None:
    memory = add(connection, "cat")
    jobs.strike(connection, space, "embed", memory)
    assert jobs.of_memory(connection, space, memory) == Job(memory, ALICE, "cat", embed=False, extract=True)
    jobs.strike(connection, space, "extract", memory)
    assert jobs.of_memory(connection, space, memory) is None
    assert jobs.due(connection, space, 10) == []


def test_without_a_space_only_entities_are_owed(connection: apsw.Connection) -> None:
    memory = add(connection, "cat")
    assert jobs.due(connection, None, 10) == [Job(memory, ALICE, "cat", embed=False, extract=True)]
    assert [state.kind for state in jobs.states(connection, None, 10)] == ["extract"]


def test_the_vectors_of_another_space_are_not_asked_for(connection: apsw.Connection, space: int) -> None:
    other = vectors.open_space(connection, "other", DIMENSION, "other-1")
    memory = add(connection, "cat")
    jobs.strike(connection, space, "embed", memory)
    assert [job.embed for job in jobs.due(connection, space, 10)] == [False]
    assert [job.embed for job in jobs.due(connection, other, 10)] == [True]


def test_the_oldest_memories_come_first_up_to_the_limit(connection: apsw.Connection, space: int) -> None:
    first, second, third = (add(connection, text) for text in ("cat", "dog", "tea"))
    jobs.strike(connection, space, "embed", first)
    jobs.strike(connection, space, "extract", second)
    due = jobs.due(connection, space, 2)
    assert [(job.memory, job.kinds) for job in due] == [(first, ("extract",)), (second, ("embed",))]
    assert [job.memory for job in jobs.due(connection, space, 10)] == [first, second, third]


@each_kind
def test_failed_work_waits_longer_each_time_and_is_given_up_at_last(
    connection: apsw.Connection, space: int, kind: Kind
) -> None:
    seq = add(connection, "cat")
    waits = []
    for attempt in range(MAX_ATTEMPTS):
        assert jobs.counts(connection, space) == {"pending": 1, "failed": 0}
        jobs.record_failure(connection, space, kind, seq, "ValueError")
        not_before, now = connection.execute(
            "SELECT not_before, strftime('%Y-%m-%dT%H:%M:%f000Z', 'now') FROM jobs WHERE kind = ?", (kind,)
        ).get
        waits.append(round((datetime.fromisoformat(not_before) - datetime.fromisoformat(now)).total_seconds()))
        assert owed(connection, space, kind) == []
        connection.execute("UPDATE jobs SET not_before = ''")
        assert owed(connection, space, kind) == ([seq] if attempt + 1 < MAX_ATTEMPTS else [])
    assert waits == [5, 20, 80, 320, 1280]
    assert jobs.counts(connection, space) == {"pending": 1, "failed": 1}
    stands = state(connection, space, kind)
    assert (stands.attempts, stands.last_error) == (MAX_ATTEMPTS, "ValueError")


@each_kind
def test_work_that_failed_can_be_tried_again(connection: apsw.Connection, space: int, kind: Kind) -> None:
    seq = add(connection, "cat")
    for _ in range(MAX_ATTEMPTS):
        jobs.record_failure(connection, space, kind, seq, "ValueError")
    jobs.retry_failed(connection, space)
    assert owed(connection, space, kind) == [seq]


@each_kind
def test_a_changed_text_is_tried_at_once_whatever_failed_before(
    connection: apsw.Connection, space: int, kind: Kind
) -> None:
    seq = add(connection, "cat")
    jobs.record_failure(connection, space, kind, seq, "ValueError")
    store.update(connection, ALICE, store.fetch(connection, [seq])[seq].id, content="dog")
    stands = state(connection, space, kind)
    assert (owed(connection, space, kind), stands.attempts, stands.last_error) == ([seq], 0, "")


@each_kind
def test_one_failure_does_not_hold_up_the_others(connection: apsw.Connection, space: int, kind: Kind) -> None:
    bad, good = add(connection, "cat"), add(connection, "dog")
    jobs.record_failure(connection, space, kind, bad, "ValueError")
    assert owed(connection, space, kind) == [good]


def test_how_long_work_waits_is_told_in_seconds(connection: apsw.Connection, space: int) -> None:
    add(connection, "cat")
    connection.execute("UPDATE jobs SET created_at = strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-90 seconds')")
    assert 90 <= state(connection, space, "embed").waiting < 600
    connection.execute("UPDATE jobs SET created_at = '2999-01-01T00:00:00.000000Z'")
    assert state(connection, space, "embed").waiting == 0


def test_work_goes_with_its_memory(connection: apsw.Connection, space: int) -> None:
    seq = add(connection, "cat")
    store.delete(connection, ALICE, store.fetch(connection, [seq])[seq].id)
    assert jobs.counts(connection, space) == {"pending": 0, "failed": 0}
