"""What cache_stats and optimize_cache do with a real engine: measure, warm, and touch no row."""

from collections.abc import Callable
from pathlib import Path

import pytest

from r3_lite.cache_upkeep import optimize, statistics
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, MemoryNotFound

MakeEngine = Callable[..., Engine]
ALONE = {"running": 0, "waiting": 0}


@pytest.fixture
def other(make_engine: MakeEngine) -> Engine:
    """The engine of another process, as it were, on the same file."""
    return make_engine(intelligence="basic")


@pytest.fixture
def engine(make_engine: MakeEngine) -> Engine:
    return make_engine(intelligence="basic")


def add(engine: Engine, count: int, priority: str = "medium") -> list[str]:
    return [
        engine.add(None, f"{priority} {n}", priority=priority, check_duplicates=False).added.id for n in range(count)
    ]


def hits(engine: Engine, ids: list[str]) -> int:
    """How many of the memories are answered from the cache."""
    before = engine.records.counts.hits
    for memory_id in ids:
        engine.get(None, memory_id)
    return engine.records.counts.hits - before


def test_it_warms_with_the_most_used_then_by_priority_then_the_newest(engine: Engine, other: Engine) -> None:
    low = add(other, 150, priority="low")
    high = add(other, 50, priority="high")
    for memory_id in low[:10]:
        other.get(None, memory_id)
    other.accesses.flush(other.database)
    assert optimize(engine, force_refresh=False, max_memories=100).cached == 100
    assert engine.records.sizes() == (50, 50)
    assert hits(engine, low[:10] + high + low[-40:]) == 100
    assert hits(engine, low[10:-40]) == 0


def test_accesses_that_are_not_in_the_file_count_too(engine: Engine) -> None:
    ids = add(engine, 150)
    for _ in range(4):
        engine.get(None, ids[0])
    optimize(engine, force_refresh=True, max_memories=100)
    assert engine.records.sizes() == (1, 99)
    assert hits(engine, ids[:1]) == 1


@pytest.mark.parametrize("force", [False, True])
def test_the_second_time_nothing_moves(force: bool, engine: Engine, other: Engine) -> None:
    ids = add(engine, 120)
    for _ in range(5):
        engine.get(None, ids[7])
    other.update(None, ids[3], content="changed by another process")
    other.delete(None, ids[4])
    first = optimize(engine, force_refresh=force, max_memories=100)
    assert first.cached == 100
    assert first.expired + first.evicted == 20
    assert first.memory_freed > 0
    again = optimize(engine, force_refresh=force, max_memories=100)
    assert (again.promoted, again.demoted, again.expired, again.evicted) == (0, 0, 0, 0)
    assert (again.memory_freed, again.cached) == (0, 100)


def test_it_reads_anew_what_another_process_changed(engine: Engine, other: Engine) -> None:
    ids = add(engine, 3)
    other.update(None, ids[0], content="changed")
    other.delete(None, ids[1])
    report = optimize(engine, force_refresh=False, max_memories=100)
    assert (report.cached, report.expired) == (2, 1)
    assert hits(engine, [ids[0], ids[2]]) == 2
    assert engine.get(None, ids[0]).content == "changed"
    with pytest.raises(MemoryNotFound):
        engine.get(None, ids[1])


def test_a_refresh_by_force_forgets_answers_and_graphs_too(engine: Engine) -> None:
    engine.answers.put("key", 1, "answer")
    engine.networks.put("user", 1, "graph")
    optimize(engine, force_refresh=False, max_memories=100)
    assert (len(engine.answers), len(engine.networks)) == (1, 1)
    optimize(engine, force_refresh=True, max_memories=100)
    assert (len(engine.answers), len(engine.networks)) == (0, 0)


def test_it_holds_no_more_than_the_setting_allows(make_engine: MakeEngine) -> None:
    for size in (0, 5):
        engine = make_engine(intelligence="basic", cache_max_size=size)
        add(engine, 10)
        assert optimize(engine, force_refresh=False, max_memories=100).cached == size
        assert len(engine.records) == size


def test_memories_too_long_for_the_cache_are_left_out(engine: Engine) -> None:
    engine.add(None, "words and " * 7_000)
    engine.add(None, "short")
    for _ in range(2):
        assert optimize(engine, force_refresh=False, max_memories=100).cached == 1


def test_neither_touches_a_row(engine: Engine, db_path: Path) -> None:
    ids = add(engine, 20)
    engine.get(None, ids[0])
    files = [db_path, db_path.with_name(db_path.name + "-wal")]
    before = [file.read_bytes() for file in files]
    optimize(engine, force_refresh=True, max_memories=100)
    statistics(engine, ALONE)
    assert [file.read_bytes() for file in files] == before


def test_the_statistics_are_the_sums_of_their_parts(engine: Engine) -> None:
    ids = add(engine, 3)
    hits(engine, ids)
    engine.answers.get("none", 1)
    engine.networks.get("none", 1)
    stats = statistics(engine, {"running": 2, "waiting": 1})
    assert (stats.hits, stats.misses, stats.hit_rate) == (3, 2, "60.0%")
    assert [part["misses"] for part in stats.parts.values()] == [0, 1, 1]
    assert stats.memory_usage == sum(part["bytes"] for part in stats.parts.values()) > 0
    assert (stats.size, stats.parts["records"]["size"]) == (3, 3)
    assert stats.connection_pool == {"active": 3, "idle": 0, "waiting": 1}


def test_the_most_used_are_those_of_the_configured_user(engine: Engine) -> None:
    mine = add(engine, 12)
    hers = engine.add("ada", "hers").added.id
    for memory_id in (mine[0], mine[0], mine[5]):
        engine.get(None, memory_id)
    engine.get("ada", hers)
    used = statistics(engine, ALONE).top_accessed
    assert [(one.id, one.accesses) for one in used] == [(mine[0], 2), (mine[5], 1)]


# The engine's use of the tiers


def test_a_memory_is_read_from_the_cache_until_anybody_changes_it(engine: Engine, other: Engine) -> None:
    (memory_id,) = add(engine, 1)
    assert hits(engine, [memory_id] * 2) == 2
    other.update(None, memory_id, metadata={"by": "another"})
    assert engine.get(None, memory_id).metadata == {"by": "another"}
    assert hits(engine, [memory_id]) == 1
    other.delete_all(None, confirm=True)
    with pytest.raises(MemoryNotFound):
        engine.get(None, memory_id)


def test_adds_of_others_and_vectors_that_arrive_leave_the_records_in_the_cache(make_engine: MakeEngine) -> None:
    engine, other = make_engine(), make_engine()
    memory_id = engine.add(None, "a cat", wait=True).added.id
    other.add(None, "a dog", wait=True)
    assert hits(engine, [memory_id]) == 1


def test_another_users_id_is_not_found_though_it_is_cached(engine: Engine) -> None:
    hers = engine.add("ada", "hers").added.id
    engine.get("ada", hers)
    with pytest.raises(MemoryNotFound):
        engine.get(None, hers)


def test_what_was_updated_or_deleted_here_is_current_at_once(engine: Engine) -> None:
    first, second = add(engine, 2)
    engine.update(None, first, content="corrected")
    assert engine.get(None, first).content == "corrected"
    engine.delete(None, first)
    assert engine.records.sizes() == (0, 1)
    engine.delete_all(None, confirm=True)
    assert engine.records.sizes() == (0, 0)
    with pytest.raises(MemoryNotFound):
        engine.get(None, second)


def test_an_update_that_fails_leaves_nothing_in_the_cache(engine: Engine) -> None:
    (memory_id,) = add(engine, 1)
    with pytest.raises(InvalidParameters):
        engine.update(None, memory_id, metadata={"deep": [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]})
    assert engine.get(None, memory_id).metadata == {}
