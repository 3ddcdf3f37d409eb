"""Duplicates in the file: what is merged, what the oldest takes over, and what is left alone."""

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from r3_lite import graph, history, jobs, merging, store
from r3_lite.db import Database
from r3_lite.dedupe import jaccard, same_meaning
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, MemoryNotFound
from r3_lite.extract import extract
from r3_lite.limits import MAX_DEPTH, MAX_METADATA, check_metadata
from r3_lite.merging import Merged, Plan, merged_metadata
from r3_lite.store import NewMemory

ANA = "ana"
KEY = "The key is under the mat"


def add(database: Database, text: str, user_id: str = ANA, **more: Any) -> str:
    with database.write() as connection:
        return store.insert(connection, NewMemory(user_id, text, **more), check_duplicates=False).id


def read(database: Database, memory_id: str, user_id: str = ANA) -> store.Record:
    with database.read() as connection:
        return store.find(connection, user_id, memory_id)


def left(database: Database, user_id: str = ANA) -> set[str]:
    with database.read() as connection:
        return {record.id for record in store.page(connection, user_id, 100_000, 0)[1]}


def actions(database: Database, memory_id: str) -> list[str]:
    with database.read() as connection:
        return [version.action for version in history.versions(connection, ANA, memory_id, 100)[1]]


def plan(database: Database, threshold: float = 0.85) -> Plan:
    return merging.plan(database, ANA, threshold)


def ids(found: Plan | Merged) -> list[list[str]]:
    return [[one.primary.id, *(other.member.id for other in one.duplicates)] for one in found.groups]


def merge(database: Database) -> Merged:
    return merging.carry_out(database, ANA, plan(database))


def test_a_plan_names_the_oldest_and_changes_nothing(database: Database) -> None:
    newest = add(database, KEY, created_at="2026-03-01T00:00:00.000000Z")
    oldest = add(database, f"Note: {KEY}", created_at="2026-01-01T00:00:00.000000Z")
    middle = add(database, KEY.lower(), created_at="2026-02-01T00:00:00.000000Z")
    found = plan(database)
    assert ids(found) == [[oldest, middle, newest]]
    assert found.duplicates == 2
    assert [other.similarity for other in found.groups[0].duplicates] == [5 / 6, 5 / 6]
    assert left(database) == {newest, oldest, middle}


def test_the_oldest_stays_and_the_rest_goes_into_the_history(database: Database) -> None:
    first, second, third = (add(database, text) for text in (KEY, f"{KEY}!", f"By the way, {KEY}"))
    other = add(database, "The key is under the pot")
    merged = merge(database)
    assert (merged.deleted, merged.left_alone, merged.kept_apart) == (2, 0, 0)
    assert left(database) == {first, other}
    assert read(database, first).content == KEY
    assert actions(database, first) == ["created"]
    assert actions(database, second) == actions(database, third) == ["created", "merged"]
    with database.read() as connection:
        _, (_, version) = history.versions(connection, ANA, third, 10)
    assert version.content == f"By the way, {KEY}"


def test_copies_that_were_wanted_are_duplicates_too(database: Database) -> None:
    copies = [add(database, KEY) for _ in range(3)]
    merge(database)
    assert left(database) == {copies[0]}


def test_users_are_apart(database: Database) -> None:
    mine, theirs = add(database, KEY), add(database, KEY, "bo")
    assert plan(database).groups == ()
    add(database, KEY)
    merge(database)
    assert (left(database), left(database, "bo")) == ({mine}, {theirs})


def test_metadata_and_the_highest_priority_go_to_the_oldest(database: Database) -> None:
    first = add(database, KEY, metadata={"topic": "home", "n": 1}, priority="low")
    add(database, f"{KEY}.", metadata={"topic": "keys", "n": True, "source": "mail"}, priority="critical")
    add(database, KEY.upper(), metadata={"source": "chat", "author": "Bo", "none": None}, priority="high")
    merged = merge(database)
    record = read(database, first)
    assert record.metadata == {"topic": "home", "n": 1, "source": "mail", "author": "Bo", "none": None}
    assert (record.priority, record.author) == ("critical", "Bo")
    assert merged.kept_apart == 3
    assert actions(database, first) == ["created", "updated"]
    assert record.updated_at > record.created_at


def test_metadata_never_grows_beyond_its_limit() -> None:
    large = "x" * (MAX_METADATA // 2)
    merged, lacking = merged_metadata({"a": large}, [{"b": large, "c": 1}, {"a": large, "d": {"e": []}}])
    assert merged == {"a": large, "c": 1, "d": {"e": []}}
    assert lacking == 1


def test_room_is_counted_as_the_metadata_is_written() -> None:
    chance = random.Random(7)
    for own in ({}, {"é": '\U0001f375 "'}):
        others = [{f"k{n}": chance.choice(["x" * chance.randint(1, 900), [1, {"ü": None}], 2.5])} for n in range(900)]
        merged, lacking = merged_metadata(own, others)
        assert check_metadata(merged) == merged
        assert len(merged) + lacking == len(own) + len(others)
        first_lacking = next(other for other in others if not other.keys() <= merged.keys())
        with pytest.raises(InvalidParameters):
            check_metadata(dict(list(merged.items())[: len(own) + others.index(first_lacking)]) | first_lacking)


def test_each_value_is_examined_once_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examining all that was gathered for each further key takes minutes where many memories have many keys."""
    examined: list[dict[str, Any]] = []

    def note(metadata: dict[str, Any]) -> dict[str, Any]:
        examined.append(metadata)
        return metadata

    monkeypatch.setattr(merging, "check_metadata", note)
    merged_metadata({"a": 0}, [{"b": 1, "c": 2}, {"b": 3, "d": 4}])
    assert examined == [{"b": 1}, {"c": 2}, {"d": 4}]


def test_what_is_nested_too_deep_is_not_taken_over() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert merged_metadata({}, [{"deep": deep, "flat": 1}]) == ({"flat": 1}, 1)


def test_others_can_write_while_it_is_computed_what_the_oldest_takes_over(
    database: Database, db_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = add(database, KEY)
    add(database, KEY, metadata={"a": 1})
    planned = plan(database)
    other = Database(db_path, busy_timeout=0)

    def compute(*arguments: Any) -> Any:
        add(other, "The door is green")
        return merged_metadata(*arguments)

    monkeypatch.setattr(merging, "merged_metadata", compute)
    assert merging.carry_out(database, ANA, planned).deleted == 1
    assert read(database, first).metadata == {"a": 1}
    assert len(left(database)) == 2
    other.close()


def test_what_changes_after_it_was_computed_is_left_alone(
    database: Database, db_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, KEY)
    second = add(database, KEY)
    planned = plan(database)
    other = Database(db_path)

    def compute(*arguments: Any) -> Any:
        with other.write() as connection:
            store.update(connection, ANA, second, metadata={"late": True})
        return merged_metadata(*arguments)

    monkeypatch.setattr(merging, "merged_metadata", compute)
    merged = merging.carry_out(database, ANA, planned)
    assert (merged.deleted, merged.left_alone) == (0, 1)
    assert read(database, second).metadata == {"late": True}
    other.close()


def test_a_transaction_removes_few_long_memories(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_BATCH_LENGTH", 1_000)
    for n in range(4):
        add(database, f"Long {n}: " + "word " * 38)
        for _ in range(5):
            add(database, f"Long {n}: " + "word " * 38, metadata={"filled": "x" * 89})
    planned = plan(database)
    assert {duplicate.member.length for one in planned.groups for duplicate in one.duplicates} == {300}
    removed: list[int] = []
    write = database.write

    @contextlib.contextmanager
    def counted(timeout: float | None = None) -> Iterator[apsw.Connection]:
        with write(timeout) as connection:
            before = store.count(connection, ANA)
            yield connection
            removed.append(before - store.count(connection, ANA))

    monkeypatch.setattr(database, "write", counted)
    assert merging.carry_out(database, ANA, planned).deleted == 20
    assert max(removed) == 2
    assert sum(removed) == 20


@pytest.mark.parametrize("key", ["author", "speaker", "name", "role"])
def test_what_two_people_said_stays_two_memories(database: Database, key: str) -> None:
    ann = add(database, "I love hiking", metadata={key: "Ann"})
    bob = add(database, "i love hiking!", metadata={key: "Bob"})
    again = add(database, "I love hiking.", metadata={key: " ann"})
    found = plan(database)
    assert ids(found) == [[ann, again]]
    assert [(pair.first.id, pair.second.id) for pair in found.look_alikes] == [(ann, bob)]
    merge(database)
    assert left(database) == {ann, bob}


def test_what_has_no_author_goes_with_the_one_who_said_it(database: Database) -> None:
    first = add(database, KEY)
    second = add(database, KEY, metadata={"author": "Ann"})
    third = add(database, KEY, metadata={"author": ""})
    assert ids(plan(database)) == [[first, second, third]]
    merge(database)
    assert read(database, first).author == "Ann"


@pytest.mark.parametrize("order", list(itertools.permutations([None, "Ann", "Bob"])))
def test_what_has_no_author_is_given_to_none_of_several(database: Database, order: tuple[str | None, ...]) -> None:
    own = {name: add(database, KEY, metadata={"author": name} if name else {}) for name in order}
    for name in order:
        add(database, KEY, metadata={"author": name} if name else {})
    assert merge(database).deleted == 3
    assert left(database) == set(own.values())
    assert [read(database, own[name]).author for name in order] == list(order)


def test_the_graph_of_what_goes_moves_to_the_oldest_and_counts_once(database: Database) -> None:
    first = add(database, "note: ana lopez works for acme corp in oslo")
    add(database, "Ana Lopez works for Acme Corp in Oslo")
    other = add(database, "Ana Lopez manages Bo Chen")
    with database.write() as connection:
        for job in jobs.due(connection, None, 10):
            graph.write(connection, job, extract(job.content), "rules", "1")
        before = graph.neighbourhood(connection, ANA, limit=50)
    merge(database)
    with database.read() as connection:
        after = graph.neighbourhood(connection, ANA, limit=50)
        assert (
            connection.execute("SELECT count(*) FROM mentions WHERE memory NOT IN (SELECT seq FROM memories)").get == 0
        )
    assert {(node.type, node.name) for node in after.nodes} == {(node.type, node.name) for node in before.nodes}
    assert {(e.source, e.type, e.target) for e in after.edges} == {(e.source, e.type, e.target) for e in before.edges}
    assert all(edge.weight == 1 for edge in after.edges)
    (ana,) = (node for node in after.nodes if node.name == "Ana Lopez")
    assert ana.mentions == 2
    assert set(ana.memories) == {first, other}


def test_nothing_of_what_goes_is_left_in_indexes_and_jobs(engine: Engine) -> None:
    for text in ("Ana drinks tea\n\nShe has a cat", "Note: Ana drinks tea\n\nShe has a cat"):
        engine.add(ANA, text, wait=True, check_duplicates=False)
    engine.duplicates(ANA, 0.85)
    _, merged = engine.merge_duplicates(ANA, 0.85)
    assert merged.deleted == 1
    with engine.database.write() as connection:
        for table in ("chunks", "jobs", "extractions", "mentions"):
            orphans = f"SELECT count(*) FROM {table} WHERE memory NOT IN (SELECT seq FROM memories)"
            assert connection.execute(orphans).get == 0
        assert store.keyword_index_sound(connection)
        assert store.count(connection, ANA) == store.keyword_rows(connection) == 1


@pytest.mark.parametrize("change", ["content", "metadata", "priority", "delete", "primary"])
def test_a_group_that_changed_since_the_plan_is_left_alone(database: Database, change: str) -> None:
    first, second = add(database, KEY), add(database, f"{KEY}!")
    third, _ = add(database, "The door is green"), add(database, "the door is green")
    planned = plan(database)
    with database.write() as connection:
        if change == "delete":
            store.delete(connection, ANA, second)
        elif change == "primary":
            store.update(connection, ANA, first, content="The key is lost")
        else:
            news: dict[str, Any] = {"content": "The key is lost", "metadata": {"a": 1}, "priority": "high"}
            store.update(connection, ANA, second, **{change: news[change]})
    merged = merging.carry_out(database, ANA, planned)
    assert merged.left_alone == 1
    assert [one.primary.id for one in merged.groups] == [third]
    assert left(database) == {first, third} | (set() if change == "delete" else {second})


def test_what_came_since_the_preview_is_not_removed(engine: Engine) -> None:
    engine.add(ANA, KEY)
    engine.add(ANA, f"{KEY}!", check_duplicates=False)
    preview = engine.duplicates(ANA, 0.85)
    late = engine.add(ANA, KEY, check_duplicates=False).added.id
    planned, merged = engine.merge_duplicates(ANA, 0.85)
    assert planned == preview
    assert ids(merged) == ids(preview)
    assert late in left(engine.database)
    # The preview is used up: the next run sees what there is.
    assert engine.merge_duplicates(ANA, 0.85)[1].deleted == 1


def test_a_preview_counts_for_its_user_and_threshold(engine: Engine) -> None:
    engine.add(ANA, KEY)
    engine.duplicates(ANA, 0.9)
    engine.duplicates("bo", 0.85)
    engine.add(ANA, KEY, check_duplicates=False)
    assert engine.merge_duplicates(ANA, 0.85)[1].deleted == 1


def test_large_groups_are_merged_in_parts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_BATCH", 7)
    monkeypatch.setattr(merging, "_PAGE", 10)
    first = add(database, KEY, metadata={"n": -1})
    for n in range(40):
        add(database, KEY, metadata={"n": n, f"k{n}": n})
    single = [add(database, f"The door {n} is green") for n in range(5)]
    for n in range(5):
        add(database, f"Note: The door {n} is green")
    planned = plan(database)
    merged = merging.carry_out(database, ANA, planned)
    assert merged.groups == planned.groups
    assert (merged.deleted, merged.left_alone) == (45, 0)
    assert left(database) == {first, *single}
    assert read(database, first).metadata == {"n": -1} | {f"k{n}": n for n in range(40)}


def test_what_differs_in_a_fact_is_a_look_alike_and_stays(database: Database) -> None:
    one = add(database, "The staging database of the shop listens on port 5432")
    two = add(database, "The staging database of the shop listens on port 5433")
    add(database, "Ana drinks tea")
    found = plan(database, 0.8)
    assert found.groups == ()
    assert [(a.first.id, a.second.id, a.similarity) for a in found.look_alikes] == [(one, two, 8 / 10)]
    assert (found.alike, found.complete) == (2, True)
    assert plan(database, 0.85).look_alikes == ()
    merge(database)
    assert {one, two} <= left(database)


@pytest.mark.parametrize("change", ["deleted", "changed", None])
def test_look_alikes_that_are_no_more_are_not_shown_after_the_merge(database: Database, change: str | None) -> None:
    one = add(database, "The staging database of the shop listens on port 5432")
    two = add(database, "The staging database of the shop listens on port 5433")
    add(database, "The staging database of the shop listens on port 5432", metadata={"a": 1})
    planned = plan(database, 0.8)
    assert (len(planned.look_alikes), planned.alike) == (1, 2)
    with database.write() as connection:
        if change == "deleted":
            store.delete(connection, ANA, two)
        elif change == "changed":
            store.update(connection, ANA, two, content="Nothing about that any more")
    merged = merging.carry_out(database, ANA, planned)
    # The oldest of a group is a look-alike still, though it took over metadata.
    assert read(database, one).metadata == {"a": 1}
    assert merged.look_alikes == (() if change else planned.look_alikes)
    assert merged.alike == (0 if change else 2)


WORDS = ["port", "server", "not", "Ana", "5432", "really", "happy", "is", "so", "the", "runs"]


def test_plans_are_those_of_brute_force(database: Database) -> None:
    chance = random.Random(4)
    for store_number in range(20):
        user, threshold = f"user {store_number}", chance.choice([0.5, 0.7, 0.85])
        texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 6))) for _ in range(25)]
        texts += [chance.choice([text.upper(), f"Note: {text}", f"{text}!"]) for text in chance.sample(texts, 8)]
        for text in texts:
            add(database, text, user)
        groups: list[list[int]] = []
        taken: set[int] = set()
        for n, text in enumerate(texts):
            if n not in taken:
                same = [m for m in range(n + 1, len(texts)) if m not in taken and same_meaning(text, texts[m])]
                taken |= {n, *same}
                groups += [[n, *same]] if same else []
        stay = [n for n in range(len(texts)) if not any(n in others[1:] for others in groups)]
        alike = {n for n in stay for m in stay if n != m and jaccard(texts[n], texts[m]) >= threshold}
        found = merging.plan(database, user, threshold)
        with database.read() as connection:
            order = sorted(store.page(connection, user, 100, 0)[1], key=lambda record: record.seq)
        place = {record.id: n for n, record in enumerate(order)}
        assert [[place[i] for i in one] for one in ids(found)] == groups
        assert {place[m.id] for a in found.look_alikes for m in (a.first, a.second)} == alike
        assert found.alike == len(alike)


def test_another_process_that_writes_in_between_is_never_undone(
    make_engine: Callable[..., Engine], engine: Engine
) -> None:
    """Two engines on one file, one correcting what the other merges: no error, and no correction lost."""
    other = make_engine()
    memories = [engine.add(ANA, KEY, check_duplicates=False).added.id for _ in range(60)]
    engine.duplicates(ANA, 0.85)
    corrected = []

    def correct() -> None:
        for memory in memories[::3]:
            try:
                other.update(ANA, memory, content=f"The key {memory} is lost")
            except MemoryNotFound:
                continue
            corrected.append(memory)
        other.close()

    thread = threading.Thread(target=correct)
    thread.start()
    engine.merge_duplicates(ANA, 0.85)
    thread.join()
    for memory in corrected:
        assert engine.get(ANA, memory).content == f"The key {memory} is lost"
