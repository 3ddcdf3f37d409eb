"""Memories and their history on a real file: every statement, the keyword index, the counts that triggers keep."""

import json
import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from conftest import DIMENSION, plans, tiny_vector
from hypothesis import given, settings
from hypothesis import strategies as st

from r3_lite import history, jobs, keywords, store, turns, vectors
from r3_lite.clock import new_id
from r3_lite.codes import HeldCodes, code_of
from r3_lite.db import Database
from r3_lite.errors import MemoryNotFound
from r3_lite.filters import compile_filter
from r3_lite.history import Version
from r3_lite.scope import Scope, scope_of
from r3_lite.similar import find_similar
from r3_lite.store import Added, NewMemory, Record
from r3_lite.text import query_terms, text_hash

ALICE, BOB = "alice", "bob"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    """A connection inside a write transaction, as every function of the store wants it."""
    with database.write() as connection:
        yield connection


def add(connection: apsw.Connection, content: str, user_id: str = ALICE, **more: Any) -> str:
    return insert(connection, content, user_id, **more).id


def insert(connection: apsw.Connection, content: str, user_id: str = ALICE, **more: Any) -> Added:
    checks = {name: more.pop(name) for name in ("check_duplicates", "near") if name in more}
    return store.insert(connection, NewMemory(user_id, content, **more), **checks)


def hits(connection: apsw.Connection, query: str, user_id: str = ALICE) -> list[str]:
    """The contents that the keyword index finds for a query, best first."""
    found = keywords.matches(connection, query_terms(query), Scope(connection, user_id), 100)
    records = store.fetch(connection, found)
    return [records[seq].content for seq in found]


def contents(connection: apsw.Connection, user_id: str = ALICE, where: Any = None) -> list[str]:
    return [r.content for r in store.page(connection, user_id, 1000, 0, compile_filter(where))[1]]


# Adding


def test_a_memory_comes_back_as_it_was_given(connection: apsw.Connection) -> None:
    content = "  Two  spaces,\n a tab\t, NUL \0, 😀 and e\u0301.  "
    metadata = {"source": "s", "tags": ["a"], "nested": {"priority": 1, "n": None}, "created_at": "1970", "id": "x"}
    added = insert(connection, content, metadata=metadata, priority="critical")
    record = store.find(connection, ALICE, added.id)
    assert (record.content, record.metadata, record.priority) == (content, metadata, "critical")
    assert list(record.metadata) == list(metadata)
    assert (record.id, record.seq, record.user_id) == (added.id, added.seq, ALICE)
    assert record.created_at == record.updated_at
    assert record.hash == text_hash(content)


def test_reserved_names_in_metadata_move_nothing(connection: apsw.Connection) -> None:
    memory_id = add(connection, "a", metadata={"user_id": BOB, "id": "x", "created_at": "1970"})
    store.update(connection, ALICE, memory_id, metadata={"user_id": BOB, "id": "y", "seq": 7, "hash": "h"})
    record = store.find(connection, ALICE, memory_id)
    assert (record.user_id, record.id) == (ALICE, memory_id)
    assert record.created_at > "2024"
    assert contents(connection, BOB) == []


def test_the_same_text_is_the_same_memory(connection: apsw.Connection) -> None:
    first = insert(connection, "Port is 5432.")
    for again in ("Port is 5432.", " port IS 5432 ", "Port is 5432!"):
        assert insert(connection, again) == Added(first.seq, first.id, duplicate=True)
    assert contents(connection) == ["Port is 5432."]


def test_the_same_text_of_another_user_is_another_memory(connection: apsw.Connection) -> None:
    assert not insert(connection, "Port is 5432.").duplicate
    assert not insert(connection, "Port is 5432.", BOB).duplicate


def test_a_copy_is_stored_where_the_caller_insists(connection: apsw.Connection) -> None:
    first = insert(connection, "a fact")
    second = insert(connection, "a fact", check_duplicates=False)
    assert not second.duplicate
    assert second.id != first.id
    assert insert(connection, "a fact").id == first.id


def test_the_first_of_several_copies_stays_the_one_that_is_known(connection: apsw.Connection) -> None:
    first = insert(connection, "a fact")
    insert(connection, "a fact", check_duplicates=False)
    store.update(connection, ALICE, first.id, metadata={"a": 1})
    assert insert(connection, "a fact").id == first.id


LONG = "The staging server of the billing team listens on port 5432 behind the old load balancer"


def test_a_near_text_without_a_new_fact_is_the_same_memory(connection: apsw.Connection) -> None:
    first = insert(connection, LONG)
    again = insert(connection, f"By the way, {LONG}")
    assert (again.id, again.duplicate) == (first.id, True)


@pytest.mark.parametrize("changed", [LONG.replace("5432", "5433"), LONG.replace("listens", "never listens")])
def test_a_near_text_with_another_fact_is_stored_and_the_near_one_listed(
    connection: apsw.Connection, changed: str
) -> None:
    first = insert(connection, LONG)
    added = insert(connection, changed)
    assert not added.duplicate
    ((similar,),) = (added.similar,)
    assert (similar.id, similar.content) == (first.id, LONG)
    words, other = set(LONG.lower().split()), set(changed.lower().split())
    assert similar.score == len(words & other) / len(words | other)
    assert len(contents(connection)) == 2


def test_a_near_text_of_another_author_is_another_memory(connection: apsw.Connection) -> None:
    text = "the staging server of our shop in Oslo listens on port 5432 and sends all mails through a relay at home"
    first = insert(connection, text, metadata={"speaker": "Ann"})
    bob = insert(connection, f"Note: {text}", metadata={"author": "Bob"})
    assert not bob.duplicate
    assert [other.id for other in bob.similar] == [first.id]
    assert insert(connection, f"Oh, {text}", metadata={"role": "bob"}).id == bob.id
    assert insert(connection, f"Remember: {text}").duplicate


def test_near_texts_of_other_users_are_not_listed(connection: apsw.Connection) -> None:
    insert(connection, LONG, BOB)
    assert insert(connection, LONG.replace("5432", "5433")).similar == ()


def test_a_text_that_was_deleted_can_be_stored_again(connection: apsw.Connection) -> None:
    first = add(connection, "a fact")
    store.delete(connection, ALICE, first)
    second = insert(connection, "a fact")
    assert not second.duplicate
    assert second.id != first
    assert hits(connection, "fact") == ["a fact"]
    assert [v.action for v in history.versions(connection, ALICE, first, 9)[1]] == ["created", "deleted"]


def test_a_text_that_was_changed_can_be_stored_again(connection: apsw.Connection) -> None:
    memory_id = add(connection, "a fact")
    store.update(connection, ALICE, memory_id, content="another fact")
    assert not insert(connection, "a fact").duplicate
    assert insert(connection, "another fact").id == memory_id


@pytest.mark.parametrize(
    ("stored", "near"),
    [
        ("Die Straße zur großen Fußgängerzone ist gesperrt", "Die Straße zur großen Fußgängerzone ist offen"),
        ("我们的会议定在星期五下午三点", "我们的会议定在星期五下午四点"),
        ("Привет мир сегодня вечером дома", "Привет мир сегодня вечером снова"),
        ("ｆｕｌｌ ｗｉｄｔｈ ｌｅｔｔｅｒｓ ｈｅｒｅ ｔｏｏ", "ｆｕｌｌ ｗｉｄｔｈ ｌｅｔｔｅｒｓ ｈｅｒｅ ｎｏｗ"),
    ],
)
def test_near_texts_are_found_in_every_script(connection: apsw.Connection, stored: str, near: str) -> None:
    first = add(connection, stored)
    assert [similar.id for similar in insert(connection, near).similar] == [first]


def test_near_texts_are_found_as_brute_force_finds_them(connection: apsw.Connection) -> None:
    """Every memory with at least 0.6 of the words in common is a candidate, and the five nearest are listed."""
    chance = random.Random(3)
    vocabulary = [f"word{chance.randrange(10**6)}" for _ in range(100)]
    texts = {" ".join(chance.sample(vocabulary[n % 80 : n % 80 + 13], 10)) for n in range(160)}
    ids = {text: add(connection, text, near=False) for text in texts}
    for text in sorted(texts)[:40]:
        ours = set(text.split())
        scores = sorted(
            ((len(ours & (theirs := set(t.split()))) / len(ours | theirs), i) for t, i in ids.items()),
            key=lambda pair: (-pair[0], pair[1]),
        )
        expected = [(i, score) for score, i in scores if score >= 0.6][:5]
        assert [(s.id, s.score) for s in find_similar(connection, ALICE, text)] == expected


def test_a_long_document_is_only_ever_the_same_or_another(connection: apsw.Connection) -> None:
    """To compare a megabyte word by word with fifty others would hold the write lock for minutes."""
    document = " ".join(f"word{n}" for n in range(4_000))
    first = insert(connection, document)
    other = insert(connection, f"{document} end")
    assert (other.duplicate, other.similar) == (False, ())
    assert insert(connection, f" {document}. ").id == first.id


def test_parallel_adds_of_one_text_make_one_memory(database: Database) -> None:
    def add_same(_: int) -> str:
        with database.write() as connection:
            return insert(connection, "the same fact").id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(add_same, range(32)))) == 1
    with database.read() as connection:
        assert store.rows(connection) == 1


# Reading by id


@pytest.mark.parametrize("memory_id", ["", "abc", "mem_123", "%", "\ud800", "a\0b", "' OR 1=1 --"])
def test_an_id_that_is_none_is_told_so(connection: apsw.Connection, memory_id: str) -> None:
    add(connection, "a")
    for call in (store.find, store.delete):
        with pytest.raises(MemoryNotFound, match="not a whole memory id"):
            call(connection, ALICE, memory_id)
    with pytest.raises(MemoryNotFound):
        store.update(connection, ALICE, memory_id, content="b")
    with pytest.raises(MemoryNotFound):
        history.versions(connection, ALICE, memory_id, 9)


def test_another_users_id_is_as_unknown_as_any(connection: apsw.Connection) -> None:
    hers = add(connection, "secret")
    messages = set()
    for memory_id in (hers, new_id()):
        for call in (
            lambda i: store.find(connection, BOB, i),
            lambda i: store.update(connection, BOB, i, content="mine"),
            lambda i: store.delete(connection, BOB, i),
            lambda i: history.versions(connection, BOB, i, 9),
        ):
            with pytest.raises(MemoryNotFound) as caught:
                call(memory_id)
            messages.add(caught.value.message)
    assert len(messages) == 1
    assert store.find(connection, ALICE, hers).content == "secret"


# Updating


def test_a_new_text_keeps_everything_else(connection: apsw.Connection) -> None:
    metadata = {"category": "c", "source": "s", "empty": None, "nested": {"a": [1]}, "priority": "p"}
    memory_id = add(connection, "old text", metadata=metadata, priority="high")
    before = store.find(connection, ALICE, memory_id)
    after = store.update(connection, ALICE, memory_id, content="new text")
    assert (after.metadata, after.priority, after.created_at) == (metadata, "high", before.created_at)
    assert after.content == "new text"
    assert after.updated_at > before.updated_at
    assert (hits(connection, "old"), hits(connection, "new")) == ([], ["new text"])


def test_a_metadata_only_update_keeps_content(connection: apsw.Connection) -> None:
    memory_id = add(connection, "  the text \0 ", metadata={"a": 1, "b": 2, "c": {"x": 1}})
    after = store.update(connection, ALICE, memory_id, metadata={"b": None, "c": {"y": 2}, "d": False})
    assert after.content == "  the text \0 "
    assert after.metadata == {"a": 1, "c": {"y": 2}, "d": False}


def test_a_priority_only_update_keeps_content_and_metadata(connection: apsw.Connection) -> None:
    memory_id = add(connection, "text", metadata={"a": 1})
    after = store.update(connection, ALICE, memory_id, priority="low")
    assert (after.content, after.metadata, after.priority) == ("text", {"a": 1}, "low")


def test_an_update_that_changes_nothing_leaves_no_trace(connection: apsw.Connection) -> None:
    memory_id = add(connection, "text", metadata={"a": 1}, priority="low")
    before = store.find(connection, ALICE, memory_id), store.generation(connection, ALICE)
    store.update(connection, ALICE, memory_id, content="text", metadata={"a": 1, "gone": None}, priority="low")
    assert (store.find(connection, ALICE, memory_id), store.generation(connection, ALICE)) == before
    assert history.versions(connection, ALICE, memory_id, 9)[0] == 1


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (1, 1.0), ([1], [True]), (None, False), ("", None)])
def test_values_that_python_takes_for_equal_are_changes(connection: apsw.Connection, old: Any, new: Any) -> None:
    memory_id = add(connection, "text", metadata={"k": old})
    after = store.update(connection, ALICE, memory_id, metadata={"k": new})
    assert json.dumps(after.metadata) == json.dumps({} if new is None else {"k": new})


def test_a_text_may_become_that_of_another_memory(connection: apsw.Connection) -> None:
    add(connection, "one")
    second = add(connection, "two")
    store.update(connection, ALICE, second, content="ONE")
    store.update(connection, ALICE, second, content="one!")
    store.update(connection, ALICE, second, content="two")
    assert sorted(contents(connection)) == ["one", "two"]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 2)), max_size=5))
def test_metadata_updates_merge_like_dictionaries(changes: list[dict[str, int | None]]) -> None:
    with Database(None).write() as connection:
        memory_id = add(connection, "text")
        expected: dict[str, int] = {}
        for change in changes:
            merged = {**expected, **change}
            expected = {key: value for key, value in merged.items() if value is not None}
            store.update(connection, ALICE, memory_id, metadata=change)
        assert store.find(connection, ALICE, memory_id).metadata == expected


def test_parallel_updates_of_one_memory_all_take_effect(database: Database) -> None:
    with database.write() as connection:
        memory_id = add(connection, "text")

    def update(n: int) -> None:
        with database.write() as connection:
            store.update(connection, ALICE, memory_id, metadata={f"k{n}": n})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(update, range(40)))
    with database.read() as connection:
        assert store.find(connection, ALICE, memory_id).metadata == {f"k{n}": n for n in range(40)}
        assert history.versions(connection, ALICE, memory_id, 100)[0] == 41


# Deleting and history


def test_a_deleted_memory_is_gone_from_everywhere_at_once(connection: apsw.Connection) -> None:
    memory_id = add(connection, "secret word", metadata={"author": "Ana"})
    removed = store.delete(connection, ALICE, memory_id)
    assert removed.content == "secret word"
    assert hits(connection, "secret") == []
    assert contents(connection) == []
    assert turns.authors(connection, ALICE) == []
    assert store.count(connection, ALICE) == 0
    with pytest.raises(MemoryNotFound):
        store.delete(connection, ALICE, memory_id)


def test_all_memories_of_one_user_go_and_those_of_others_stay(connection: apsw.Connection) -> None:
    ids = [add(connection, f"hers {n}") for n in range(150)]
    for n in range(50):
        add(connection, f"his {n}", BOB)
    assert store.delete_all(connection, ALICE) == 150
    assert (contents(connection), hits(connection, "hers"), store.count(connection, ALICE)) == ([], [], 0)
    assert (len(contents(connection, BOB)), len(hits(connection, "his", BOB))) == (50, 50)
    assert [v.action for v in history.versions(connection, ALICE, ids[7], 9)[1]] == ["created", "deleted"]
    assert store.delete_all(connection, ALICE) == 0


def test_history_tells_every_state_in_order(connection: apsw.Connection) -> None:
    memory_id = add(connection, "one", metadata={"n": 1}, priority="low")
    store.update(connection, ALICE, memory_id, content="two")
    store.update(connection, ALICE, memory_id, metadata={"n": 2}, priority="high")
    store.delete(connection, ALICE, memory_id)
    total, versions = history.versions(connection, ALICE, memory_id, 100)
    assert total == 4
    assert [(v.version, v.action, v.content, v.metadata, v.priority) for v in versions] == [
        (1, "created", "one", {"n": 1}, "low"),
        (2, "updated", "two", {"n": 1}, "low"),
        (3, "updated", "two", {"n": 2}, "high"),
        (4, "deleted", "two", {"n": 2}, "high"),
    ]
    times = [v.timestamp for v in versions]
    assert times == sorted(times)


def test_history_shows_the_newest_versions_oldest_first(connection: apsw.Connection) -> None:
    memory_id = add(connection, "0")
    for n in range(1, 6):
        store.update(connection, ALICE, memory_id, content=str(n))
    total, versions = history.versions(connection, ALICE, memory_id, 2)
    assert (total, [v.content for v in versions]) == (6, ["4", "5"])


def test_history_times_ascend_for_a_memory_from_the_future(connection: apsw.Connection) -> None:
    later = "2999-01-01T00:00:00.000000Z"
    memory_id = add(connection, "one", created_at=later)
    store.update(connection, ALICE, memory_id, content="two")
    store.delete(connection, ALICE, memory_id)
    assert [v.timestamp for v in history.versions(connection, ALICE, memory_id, 9)[1]] == [later] * 3


def test_the_id_of_a_deleted_memory_stays_its_owners(connection: apsw.Connection) -> None:
    memory_id = add(connection, "a fact")
    assert history.owner(connection, memory_id) == (ALICE, True)
    store.delete(connection, ALICE, memory_id)
    assert history.owner(connection, memory_id) == (ALICE, False)
    assert history.owner(connection, new_id()) is None


# Listing


def test_pages_are_newest_first_and_show_each_memory_once(connection: apsw.Connection) -> None:
    days = [f"2024-01-{day:02}T00:00:00.000000Z" for day in (3, 1, 2, 2, 2)]
    for n, day in enumerate(days):
        add(connection, f"fact {n}", created_at=day)
    add(connection, "his", BOB)
    assert contents(connection) == ["fact 0", "fact 4", "fact 3", "fact 2", "fact 1"]
    paged = [store.page(connection, ALICE, 2, offset) for offset in (0, 2, 4, 6)]
    assert [total for total, _ in paged] == [5] * 4
    assert [r.content for _, records in paged for r in records] == contents(connection)


def test_a_filtered_page_counts_what_passes(connection: apsw.Connection) -> None:
    for n in range(10):
        add(connection, f"fact {n}", metadata={"even": n % 2 == 0}, priority="low" if n < 3 else "high")
    where = compile_filter({"even": True, "priority": {"$gt": "low"}})
    total, records = store.page(connection, ALICE, 2, 0, where)
    assert (total, [r.content for r in records]) == (3, ["fact 8", "fact 6"])


# Keywords


def test_filters_and_users_restrict_keyword_matches_before_the_cut(connection: apsw.Connection) -> None:
    for n in range(300):
        add(connection, f"tea tea tea {n}", BOB, near=False)
        add(connection, f"tea tea {n}", metadata={"topic": "other"}, near=False)
    add(connection, "a long note that says tea once among very many other words", metadata={"topic": "mine"})
    found = keywords.matches(connection, ["tea"], scope_of(connection, ALICE, compile_filter({"topic": "mine"})), 5)
    assert [r.metadata for r in store.fetch(connection, found).values()] == [{"topic": "mine"}]
    assert all(score > 0 for score in found.values())


def test_keyword_matches_are_each_users_own(connection: apsw.Connection) -> None:
    add(connection, "tea of alice")
    add(connection, "tea of bob", BOB)
    assert (hits(connection, "tea"), hits(connection, "tea", BOB)) == (["tea of alice"], ["tea of bob"])
    assert hits(connection, "tea", "nobody") == []


SYNTAX = [
    "multi-agent", "don't panic", "status: done", "C++", "foo/bar", "20.04", 'say "hi', "(python", "retry OR",
    "what did we discuss?", "content:*", "content : x", "NEAR(a b)", "x AND y", "NOT a", "^start", "pre*", "{a b}: c",
    "-x", "+x", "a+b", "x' OR '1'='1", "; DROP TABLE memories; --", "100%", "GRACE_v2", "NULL", "p\0q", "ＡＢＣ",
    "naïve café", "\\", "日本語のテスト", "서울에서", "ภาษาไทย", "Ship it🤞", "a" * 300,
]  # fmt: skip


@pytest.mark.parametrize("text", SYNTAX, ids=range(len(SYNTAX)))
def test_a_text_is_found_by_itself_whatever_it_holds(connection: apsw.Connection, text: str) -> None:
    others = [other for other in SYNTAX if other != text]
    for other in [*others, text]:
        add(connection, other, near=False)
    if query_terms(text):
        assert hits(connection, text)[0] == text


@settings(max_examples=300)
@given(st.text(st.sampled_from("\"'()*:^-+/.?{}\\;,~ aAbB1é東ก\0") | st.sampled_from("ANDORTE "), max_size=30))
def test_no_query_is_syntax(query: str) -> None:
    with FUZZ.read() as connection:
        terms = query_terms(query)
        if terms:
            keywords.matches(connection, terms, Scope(connection, ALICE), 5)


FUZZ = Database(None)


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        (
            "我们的服务器SRE-4711在东京数据中心",
            ["我们", "服务器", "东京", "数据中心", "京数", "SRE-4711", "4711", "器"],
        ),
        ("東京タワーで会議、担当はQA42です", ["東京", "タワー", "会議", "担当は", "QA42", "議"]),
        ("서울사무소에서 프로젝트A1회의", ["서울", "사무소", "무소에서", "프로젝트", "A1", "회의"]),
        ("ประชุมทีมที่กรุงเทพV2วันศุกร์", ["ประชุม", "ทีม", "กรุงเทพ", "V2", "ศุกร์"]),
    ],
)
def test_words_from_the_middle_of_spaceless_text_are_found(
    connection: apsw.Connection, text: str, queries: list[str]
) -> None:
    add(connection, text)
    add(connection, "something else entirely")
    assert {query: hits(connection, query) for query in queries} == {query: [text] for query in queries}


def test_words_may_stand_apart_and_in_any_order_and_one_may_be_missing(connection: apsw.Connection) -> None:
    note = "Crop and resize are done before the dynamic part, passthrough of the bitrate stays off"
    add(connection, note)
    add(connection, "resize the window")
    assert hits(connection, "dynamic bitrate passthrough resize shimmer")[0] == note


def test_short_words_count(connection: apsw.Connection) -> None:
    for text in ("Quick note about ok things", "Quick brown fox", "Written in go", "Written in C", "R scripts"):
        add(connection, text)
    assert hits(connection, "quick ok")[0] == "Quick note about ok things"
    assert hits(connection, "go") == ["Written in go"]
    assert hits(connection, "C") == ["Written in C"]
    assert hits(connection, "R") == ["R scripts"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the deployments failed", "deployment"),
        ("Crème brûlée", "creme brulee"),
        ("ΑΘΗΝΑ", "αθηνα"),
        ("Ana said", "ANA"),
    ],
)
def test_words_match_by_stem_case_and_without_accents(connection: apsw.Connection, text: str, query: str) -> None:
    add(connection, text)
    assert hits(connection, query) == [text]


def test_author_and_day_can_be_searched(connection: apsw.Connection) -> None:
    add(connection, "moved house", metadata={"speaker": "Melanie"}, created_at="2023-05-08T00:00:00.000000Z")
    assert hits(connection, "Melanie") == ["moved house"]
    assert hits(connection, "8 May 2023") == ["moved house"]


def test_a_changed_author_is_found_by_its_new_name_only(connection: apsw.Connection) -> None:
    memory_id = add(connection, "moved house", metadata={"author": "Melanie"})
    store.update(connection, ALICE, memory_id, metadata={"author": "Caroline"})
    assert (hits(connection, "Melanie"), hits(connection, "Caroline")) == ([], ["moved house"])


# What metadata says about a memory


@pytest.mark.parametrize(
    ("metadata", "author", "session"),
    [
        ({}, None, None),
        ({"author": "A", "speaker": "B", "name": "C", "role": "D"}, "A", None),
        ({"speaker": "B", "name": "C", "role": "D"}, "B", None),
        ({"name": "C", "role": "D"}, "C", None),
        ({"role": "D"}, "D", None),
        ({"author": 7}, "7", None),
        ({"author": None, "role": "user"}, "user", None),
        ({"session_id": "1", "conversation_id": "2", "thread_id": "3", "run_id": "4"}, None, "1"),
        ({"conversation_id": "2", "thread_id": "3", "run_id": "4"}, None, "2"),
        ({"thread_id": "3", "run_id": "4"}, None, "3"),
        ({"run_id": 4}, None, "4"),
    ],
)
def test_author_and_session_come_from_metadata(
    connection: apsw.Connection, metadata: dict[str, Any], author: str | None, session: str | None
) -> None:
    record = store.find(connection, ALICE, add(connection, "text", metadata=metadata))
    assert (record.author, record.session) == (author, session)


def test_a_batch_is_the_session_of_those_that_name_none(connection: apsw.Connection) -> None:
    first = store.find(connection, ALICE, add(connection, "one", batch="import:1"))
    second = store.find(connection, ALICE, add(connection, "two", batch="import:1", metadata={"session_id": "s"}))
    assert (first.session, second.session) == ("import:1", "s")


def test_neighbours_are_those_of_the_same_session_and_user(connection: apsw.Connection) -> None:
    def turn(content: str, session: str | None, user_id: str = ALICE) -> int:
        return insert(connection, content, user_id, metadata={"session_id": session} if session else {}).seq

    a1, b1, his = turn("one", "a"), turn("two", "b"), turn("his", "a", BOB)
    a2, alone, a3 = turn("three", "a"), turn("four", None), turn("five", "a")
    found = turns.neighbours(connection, [a1, a2, a3, b1, his, alone, 999])
    assert found == {a1: (None, a2), a2: (a1, a3), a3: (a2, None), b1: (None, None), his: (None, None)}
    assert turns.neighbours(connection, []) == {}


def test_neighbours_in_time_have_an_author_and_little_time_between(connection: apsw.Connection) -> None:
    def turn(minute: int, author: str | None = "Ana", user_id: str = ALICE, batch: str | None = None) -> int:
        created = f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00.000000Z"
        return insert(
            connection, f"text {minute} {author} {batch}", user_id, metadata={"author": author} if author else {},
            created_at=created, batch=batch,
        ).seq  # fmt: skip

    first, his, imported, second = turn(0), turn(1, user_id=BOB), turn(2, batch="import:1"), turn(30)
    note, late = turn(31, None), turn(32)
    later, next_imported = turn(63), turn(20, batch="import:1")
    found = turns.neighbours_in_time(
        connection, [first, his, imported, second, late, later, next_imported, 999], timedelta(minutes=30)
    )
    assert found == {
        first: (None, second), second: (first, None), his: (None, None),
        # A note stands between the two, and more than the gap between the next two.
        late: (None, None), later: (None, None),
        imported: (None, next_imported), next_imported: (imported, None),
    }  # fmt: skip
    assert note not in found


def test_of_long_texts_an_excerpt_can_be_fetched(connection: apsw.Connection) -> None:
    seq = insert(connection, "東京 and more", metadata={"a": 1}).seq
    assert store.fetch(connection, [seq], excerpt=4)[seq].content == "東京 a"
    assert store.fetch(connection, [seq], excerpt=4)[seq].metadata == {"a": 1}
    assert store.fetch(connection, [seq])[seq].content == "東京 and more"
    assert store.fetch(connection, []) == {}


def test_authors_are_each_users_own(connection: apsw.Connection) -> None:
    for n, name in enumerate(["Caroline", "Melanie", "Caroline", "", "Ωmega"]):
        add(connection, f"fact {n}", metadata={"author": name})
    add(connection, "his", BOB, metadata={"author": "Bob"})
    assert turns.authors(connection, ALICE) == ["Caroline", "Melanie", "Ωmega"]


# Users


@pytest.mark.parametrize("user_id", ["a%", "a_", "x' OR '1'='1", "A", "a ", "ä", "a1"])
def test_user_ids_are_compared_as_they_are(connection: apsw.Connection, user_id: str) -> None:
    add(connection, "hers", "a")
    assert contents(connection, user_id) == []
    add(connection, "theirs", user_id)
    assert contents(connection, user_id) == ["theirs"]
    assert store.delete_all(connection, user_id) == 1
    assert contents(connection, "a") == ["hers"]


def test_counts_are_each_users_own(connection: apsw.Connection) -> None:
    add(connection, "one")
    gone = add(connection, "two")
    add(connection, "his", BOB)
    store.delete(connection, ALICE, gone)
    assert [store.count(connection, user) for user in (ALICE, BOB, "nobody")] == [1, 1, 0]
    assert [store.count_others(connection, user) for user in (ALICE, BOB, "nobody")] == [1, 1, 2]
    assert store.totals(connection) == {"memories": 2, "users": 2, "history": 4}


def test_totals_of_an_empty_file_are_zero(connection: apsw.Connection) -> None:
    assert store.totals(connection) == {"memories": 0, "users": 0, "history": 0}


def test_a_generation_moves_with_every_change_of_its_user_and_with_no_other(connection: apsw.Connection) -> None:
    seen = [store.generation(connection, ALICE)]
    memory_id = add(connection, "one")
    seen.append(store.generation(connection, ALICE))
    for change in ({"content": "two"}, {"metadata": {"a": 1}}, {"priority": "low"}):
        store.update(connection, ALICE, memory_id, **change)
        seen.append(store.generation(connection, ALICE))
    store.delete(connection, ALICE, memory_id)
    seen.append(store.generation(connection, ALICE))
    add(connection, "three")
    store.delete_all(connection, ALICE)
    seen.append(store.generation(connection, ALICE))
    assert seen == sorted(set(seen))
    before = seen[-1]
    add(connection, "his", BOB)
    store.delete_all(connection, BOB)
    assert store.generation(connection, ALICE) == before


def test_a_change_that_is_rolled_back_moves_no_generation(database: Database) -> None:
    def add_and_fail() -> None:
        with database.write() as connection:
            add(connection, "one")
            raise KeyError

    with pytest.raises(KeyError):
        add_and_fail()
    with database.read() as connection:
        assert store.generation(connection, ALICE) == 0


# Soundness


def assert_sound(connection: apsw.Connection) -> None:
    """All that triggers keep agrees with the memories."""
    assert store.keyword_index_sound(connection)
    assert store.keyword_rows(connection) == store.rows(connection)
    counted = dict(connection.execute("SELECT user_id, count(*) FROM memories GROUP BY user_id"))
    kept = dict(connection.execute("SELECT user_id, memories FROM users WHERE memories > 0"))
    assert kept == counted
    spaces: list[Any] = connection.execute("SELECT id FROM spaces").fetchall()
    for (space,) in spaces:
        owed = {m for (m,) in connection.execute("SELECT memory FROM jobs WHERE space = ?", (space,))}
        embedded = {m for (m,) in connection.execute("SELECT memory FROM chunks WHERE space = ?", (space,))}
        assert owed.isdisjoint(embedded)
        assert owed | embedded == {m for (m,) in connection.execute("SELECT seq FROM memories")}
    stored = connection.execute(
        "SELECT c.user_id = m.user_id, code, embedding FROM chunks AS c JOIN memories AS m ON m.seq = c.memory"
    )
    assert all(same and code == code_of(embedding) for same, code, embedding in stored)
    values = connection.execute("SELECT DISTINCT user_id, key, value, memory FROM attribute_values").fetchall()
    assert set(connection.execute("SELECT user_id, key, value, memory FROM attributes")) == set(values)
    versions = connection.execute("SELECT memory_id, count(*), max(version) FROM history GROUP BY memory_id").fetchall()
    assert all(number == newest for _, number, newest in versions)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def contents_where(connection: apsw.Connection, wanted: dict[str, Any], user_id: str) -> list[str]:
    return [record.content for record in store.page(connection, user_id, 100, 0, compile_filter(wanted))[1]]


def embed_some(connection: apsw.Connection, space: int, limit: int) -> None:
    owed = [job for job in jobs.due(connection, space, limit) if job.embed]
    parts = {job: [tiny_vector(part).tobytes() for part in job.content.split("\n\n")] for job in owed}
    vectors.store_vectors(connection, space, parts)


def test_everything_agrees_after_many_random_operations(database: Database) -> None:
    """Two users, two embedding models; each operation is checked against a plain dictionary."""
    chance = random.Random(11)
    expected: dict[str, dict[str, str]] = {ALICE: {}, BOB: {}}
    with database.write() as connection:
        spaces = [vectors.open_space(connection, name, DIMENSION, name) for name in ("first", "second")]

    def text() -> str:
        return " ".join(chance.choices(["cat", "dog", "tea", "port", "東京", "naïve", "\n\n", "5", "Ana"], k=6))

    for step in range(300):
        user = chance.choice((ALICE, BOB))
        mine = expected[user]
        with database.write() as connection:
            action = chance.choice(["add", "add", "add", "copy", "update", "metadata", "delete", "embed"])
            if action in ("add", "copy"):
                content = f"{text()} {chance.randrange(60)}"
                added = insert(connection, content, user, check_duplicates=action == "add")
                assert added.duplicate == (added.id in mine)
                mine.setdefault(added.id, content)
            elif action == "embed":
                embed_some(connection, chance.choice(spaces), 5)
            elif mine:
                memory_id = chance.choice(sorted(mine))
                if action == "delete":
                    assert store.delete(connection, user, memory_id).content == mine.pop(memory_id)
                elif action == "update":
                    mine[memory_id] = text()
                    store.update(connection, user, memory_id, content=mine[memory_id])
                else:
                    store.update(connection, user, memory_id, metadata={"n": step, "author": chance.choice("AB")})
            if step == 200:
                assert store.delete_all(connection, BOB) == len(expected[BOB])
                expected[BOB].clear()
        if step % 10 == 0:
            with database.write() as connection:
                assert_sound(connection)
    with database.write() as connection:
        assert_sound(connection)
        for user, memories in expected.items():
            _, records = store.page(connection, user, 1000, 0)
            assert {record.id: record.content for record in records} == memories


def test_a_keyword_index_out_of_step_is_noticed_and_rebuilt(connection: apsw.Connection) -> None:
    add(connection, "apple")
    memory_id = add(connection, "banana")
    trigger = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'memory_words_updated'").get
    connection.execute("DROP TRIGGER memory_words_updated")
    store.update(connection, ALICE, memory_id, content="cherry")
    connection.execute(trigger)
    assert not store.keyword_index_sound(connection)
    before = store.generation(connection, ALICE)
    store.rebuild_keyword_index(connection)
    assert store.keyword_index_sound(connection)
    assert store.generation(connection, ALICE) > before
    assert (hits(connection, "banana"), hits(connection, "cherry")) == ([], ["cherry"])
    store.delete(connection, ALICE, memory_id)


def test_the_check_of_the_keyword_index_changes_nothing(database: Database, db_path: Path) -> None:
    with database.write() as connection:
        add(connection, "apple")
    log = db_path.with_name("memories.db-wal")
    before = db_path.read_bytes(), log.read_bytes()
    with database.write() as connection:
        assert store.keyword_index_sound(connection)
    assert (db_path.read_bytes(), log.read_bytes()) == before


@pytest.mark.parametrize("mine", [3, 30], ids=["few", "most"])
def test_removing_all_of_a_user_leaves_the_others_as_they_were(database: Database, mine: int) -> None:
    with database.write() as connection:
        vectors.open_space(connection, "first", DIMENSION, "first")
        for n in range(12):
            add(connection, f"bob drinks tea number {n}", BOB, metadata={"n": n})
        for n in range(mine):
            add(connection, f"alice drinks tea number {n}", ALICE, metadata={"n": n})
        embed_some(connection, 1, 100)
        before = hits(connection, "tea", BOB)
        assert store.delete_all(connection, ALICE) == mine
        assert_sound(connection)
        assert (hits(connection, "tea", ALICE), hits(connection, "tea", BOB)) == ([], before)
        assert contents_where(connection, {"n": 3}, BOB) == ["bob drinks tea number 3"]
        assert len(find_similar(connection, BOB, "bob drinks tea number 99")) == 5
        add(connection, "alice drinks tea again", ALICE)
        assert hits(connection, "tea", ALICE) == ["alice drinks tea again"]
        assert_sound(connection)


def test_a_memory_that_another_program_moves_to_another_user_is_theirs_alone(database: Database) -> None:
    with database.write() as connection:
        vectors.open_space(connection, "first", DIMENSION, "first")
        moved, kept = (
            add(connection, text, ALICE, metadata={"k": "v"}) for text in ("the cat sleeps", "the dog barks")
        )
        embed_some(connection, 1, 100)
        connection.execute("UPDATE memories SET user_id = ? WHERE id = ?", (BOB, moved))
        embed_some(connection, 1, 100)
        assert_sound(connection)
        assert (hits(connection, "cat", ALICE), hits(connection, "cat", BOB)) == ([], ["the cat sleeps"])
        assert contents_where(connection, {"k": "v"}, BOB) == ["the cat sleeps"]
        for user, own in ((ALICE, kept), (BOB, moved)):
            near = vectors.nearest(
                connection, HeldCodes(), 1, tiny_vector("cat").tobytes(), scope_of(connection, user), 9
            )
            assert [record.id for record in store.fetch(connection, [seq for seq, _ in near]).values()] == [own]


def test_what_a_replacement_by_another_program_leaves_behind_is_mended(connection: apsw.Connection) -> None:
    memory_id = add(connection, "old text", metadata={"old": 1})
    connection.execute(
        """REPLACE INTO memories (id, user_id, content, metadata, hash, created_at, updated_at)
           VALUES (?, ?, 'new text', '{"new": 1}', 'h', '2026', '2026')""",
        (memory_id, ALICE),
    )
    store.rebuild_keyword_index(connection)
    assert store.count(connection, ALICE) == 1
    assert contents_where(connection, {"old": 1}, ALICE) == []
    assert contents_where(connection, {"new": 1}, ALICE) == hits(connection, "text", ALICE) == ["new text"]


# Cost


FILTER = compile_filter({"topic": "tea"})


@pytest.mark.parametrize(
    "call",
    [
        lambda c, m: store.insert(c, NewMemory(ALICE, "cat and dog drink tea at home")),
        lambda c, m: store.find(c, ALICE, m.id),
        lambda c, m: store.fetch(c, [m.seq]),
        lambda c, m: store.update(c, ALICE, m.id, content="changed"),
        lambda c, m: store.delete(c, ALICE, m.id),
        lambda c, m: store.page(c, ALICE, 10, 0),
        lambda c, m: store.page(c, ALICE, 10, 0, FILTER),
        lambda c, m: keywords.matches(c, ["tea"], scope_of(c, ALICE), 10),
        lambda c, m: keywords.matches(c, ["tea"], scope_of(c, ALICE, FILTER), 10),
        lambda c, m: find_similar(c, ALICE, "cat and dog drink tea"),
        lambda c, m: turns.authors(c, ALICE),
        lambda c, m: history.versions(c, ALICE, m.id, 10),
        lambda c, m: history.owner(c, m.id),
        lambda c, m: turns.neighbours(c, [m.seq]),
        lambda c, m: turns.neighbours_in_time(c, [m.seq], timedelta(minutes=30)),
        lambda c, m: store.count(c, ALICE),
        lambda c, m: store.generation(c, ALICE),
        lambda c, m: vectors.nearest(c, HeldCodes(), 1, tiny_vector("cat").tobytes(), scope_of(c, ALICE), 10),
        lambda c, m: vectors.nearest(c, HeldCodes(), 1, tiny_vector("cat").tobytes(), scope_of(c, ALICE, FILTER), 10),
        lambda c, m: vectors.cosines(c, 1, tiny_vector("cat").tobytes(), [m.seq]),
        lambda c, m: vectors.cosines_in_context(c, 1, tiny_vector("cat").tobytes(), {m.seq: m.seq}),
        lambda c, m: jobs.due(c, 1, 10),
        lambda c, m: jobs.of_memory(c, 1, m.seq),
        lambda c, m: jobs.states(c, 1, 10),
        lambda c, m: vectors.is_indexed(c, 1, m.seq),
        lambda c, m: keywords.is_rare(c, "tea", scope_of(c, ALICE), 5),
        lambda c, m: jobs.record_failure(c, 1, "embed", m.seq, "x"),
        lambda c, m: vectors.find_space(c, "first"),
    ],
    ids=range(28),
)
def test_no_call_reads_a_whole_table(
    connection: apsw.Connection, call: Callable[[apsw.Connection, Record], object]
) -> None:
    """Cost grows with the answer: every statement reaches memories, history, chunks and jobs through an index."""
    vectors.open_space(connection, "first", DIMENSION, "first")
    for n in range(20):
        add(connection, f"tea number {n}", (ALICE, BOB)[n % 2], metadata={"topic": "tea"}, near=False)
    embed_some(connection, 1, 10)
    record = store.page(connection, ALICE, 1, 0)[1][0]
    found = plans(connection, lambda: call(connection, record))
    assert found
    scans = [
        pair for pair in found if re.match(r"SCAN (m|c|j|memories|history|chunks|jobs)\b(?!.*VIRTUAL TABLE)", pair[1])
    ]
    assert scans == []


def test_listing_sorts_nothing(connection: apsw.Connection) -> None:
    found = plans(connection, lambda: store.page(connection, ALICE, 10, 0))
    assert [plan for _, plan in found if "TEMP B-TREE" in plan] == []


def test_versions_are_plain_values() -> None:
    version = Version(1, "created", "text", {}, "low", "now")
    assert version == Version(1, "created", "text", {}, "low", "now")
