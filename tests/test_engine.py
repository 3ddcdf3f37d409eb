"""The engine: what is committed when, which way a search goes, and what happens when a part is missing."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from conftest import TinyModel
from mcp_helpers import eventually, indexed

from r3_lite.answer import Found
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, MemoryNotFound, ModelUnavailable, StorageBusy, StorageError
from r3_lite.settings import Settings

MakeEngine = Callable[..., Engine]


def ids(found: Found) -> list[str]:
    return [hit.record.id for hit in found.ranking.hits]


def texts(found: Found) -> list[str]:
    return [hit.record.content for hit in found.ranking.hits]


@pytest.fixture
def other_program(db_path: Path) -> Iterator[Callable[[], apsw.Connection]]:
    """A connection such as any other program could open on the file."""
    opened: list[apsw.Connection] = []

    def connect() -> apsw.Connection:
        connection = apsw.Connection(str(db_path))
        connection.set_busy_timeout(5000)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def slow_model(monkeypatch: pytest.MonkeyPatch, tiny_model: TinyModel) -> Iterator[Callable[[], None]]:
    """A model that does not load before the returned function is called."""
    gate = threading.Event()

    def open_when_allowed(name: str | None, cache_dir: Path) -> TinyModel:
        assert gate.wait(30)
        return tiny_model

    monkeypatch.setattr("r3_lite.embed.open_model", open_when_allowed)
    yield gate.set
    gate.set()


@pytest.fixture
def waiting_engine(db_path: Path, slow_model: Callable[[], None]) -> Iterator[Engine]:
    """An engine whose model is still loading."""
    engine = Engine(Settings(db_path=db_path, synchronous="normal", embedding_model="tiny"))
    yield engine
    slow_model()
    engine.close()


def test_nothing_is_opened_or_loaded_before_it_is_needed(db_path: Path, tiny_model: TinyModel) -> None:
    threads = threading.active_count()
    engine = Engine(Settings(db_path=db_path))
    assert not db_path.parent.exists()
    assert threading.active_count() == threads
    assert engine.encoder.state == "idle"


def test_every_thread_has_a_connection_of_its_own(make_engine: MakeEngine) -> None:
    engine = make_engine(intelligence="basic")
    for batch in range(5):
        with ThreadPoolExecutor(20) as threads:
            stored = list(threads.map(lambda i: engine.add(None, f"note {i}"), range(batch * 20, batch * 20 + 20)))
            assert len({s.added.id for s in stored}) == 20
    assert engine.page(None, limit=1, offset=0).total == 100


# While the model is not there


def test_while_the_model_loads_an_add_is_committed_and_found_by_keyword(
    waiting_engine: Engine, slow_model: Callable[[], None]
) -> None:
    stored = waiting_engine.add(None, "my kitten sleeps")
    assert not stored.indexed
    found = waiting_engine.search(None, "kitten")
    assert ids(found) == [stored.added.id]
    assert (found.mode, found.note) == ("keyword", "Search goes by keyword until the embedding model is loaded.")
    assert waiting_engine.pending()[0]["pending"] == 1
    assert texts(waiting_engine.search(None, "feline")) == []
    slow_model()
    eventually(lambda: indexed(waiting_engine))
    found = waiting_engine.search(None, "feline")
    assert ids(found) == [stored.added.id]
    assert (found.mode, found.note) == ("hybrid", "")


def test_a_text_corrected_while_the_model_loads_is_embedded_as_corrected(
    waiting_engine: Engine, slow_model: Callable[[], None], tiny_model: TinyModel
) -> None:
    memory_id = waiting_engine.add(None, "Ada has a cat").added.id
    waiting_engine.update(None, memory_id, content="Ada has a dog")
    slow_model()
    eventually(lambda: indexed(waiting_engine))
    assert tiny_model.texts == ["Ada has a dog"]
    assert texts(waiting_engine.search(None, "hound")) == ["Ada has a dog"]
    assert texts(waiting_engine.search(None, "feline")) == []


def test_a_waiting_add_answers_when_its_vector_is_in_the_file(make_engine: MakeEngine) -> None:
    engine = make_engine()
    assert engine.add(None, "my kitten sleeps", wait=True).indexed
    assert engine.pending()[0]["pending"] == 0


def test_without_a_model_a_waiting_add_is_stored_and_says_that_its_vector_is_owed(
    db_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str | None, cache_dir: Path) -> TinyModel:
        raise ModelUnavailable("The model is not there: download it.")

    monkeypatch.setattr("r3_lite.embed.open_model", fail)
    engine = Engine(Settings(db_path=db_path, embedding_model="tiny"))
    try:
        assert not engine.add(None, "my kitten sleeps", wait=True).indexed
        assert engine.pending()[0] == {"pending": 1, "failed": 0, "without_vector": 1}
        assert engine.search(None, "kitten").note == "Search goes by keyword: health_check says why."
    finally:
        engine.close()


def test_memories_stored_without_embeddings_are_embedded_when_they_are_switched_on(make_engine: MakeEngine) -> None:
    off = make_engine(intelligence="basic")
    assert off.add(None, "my kitten sleeps").indexed
    assert off.search(None, "kitten").note == "Search goes by keyword: embeddings are switched off."
    on = make_engine()
    on.start()
    eventually(lambda: indexed(on))
    assert texts(on.search(None, "feline")) == ["my kitten sleeps"]


def test_a_query_that_cannot_be_embedded_is_answered_by_keyword_with_a_warning(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str) -> None:
        raise ModelUnavailable("The model is gone: restart.")

    engine = make_engine()
    engine.add(None, "my kitten sleeps", wait=True)
    monkeypatch.setattr(engine.encoder, "embed_query", fail)
    found = engine.search(None, "kitten")
    assert texts(found) == ["my kitten sleeps"]
    assert (found.mode, found.warning) == ("keyword", "The model is gone: restart.")


# Failures of embedding


def test_a_text_that_cannot_be_embedded_is_kept_and_tried_again(
    make_engine: MakeEngine, tiny_model: TinyModel, other_program: Callable[[], apsw.Connection]
) -> None:
    tiny_model.fails = lambda text: "broken" in text
    engine = make_engine()
    good, bad = engine.add(None, "a dog"), engine.add(None, "a broken cat", wait=True)
    assert not bad.indexed
    assert texts(engine.search(None, "broken")) == ["a broken cat"]
    eventually(lambda: engine.pending()[0] == {"pending": 1, "failed": 0, "without_vector": 1})
    (job,) = engine.pending()[1]
    assert (job.memory_id, job.last_error) == (bad.added.id, "ValueError")
    assert job.attempts >= 1
    tiny_model.fails = lambda text: False
    other_program().execute("UPDATE jobs SET not_before = ''")
    eventually(lambda: indexed(engine))
    assert set(ids(engine.search(None, "hound feline"))) == {good.added.id, bad.added.id}


# What is embedded, and how often


def test_only_a_changed_text_is_embedded_again(make_engine: MakeEngine, tiny_model: TinyModel) -> None:
    engine = make_engine()
    memory_id = engine.add(None, "a cat", wait=True).added.id
    engine.update(None, memory_id, metadata={"a": 1}, priority="high")
    engine.update(None, memory_id, content="a cat")
    assert indexed(engine)
    assert tiny_model.texts == ["a cat"]
    engine.update(None, memory_id, content="a dog")
    eventually(lambda: indexed(engine))
    assert tiny_model.texts == ["a cat", "a dog"]


def test_a_query_is_embedded_once(make_engine: MakeEngine, tiny_model: TinyModel) -> None:
    engine = make_engine()
    engine.add(None, "a cat", wait=True)
    for limit in (5, 6, 7):
        engine.search(None, "feline", limit=limit)
    assert tiny_model.queries == ["feline"]


def test_searching_writes_nothing(make_engine: MakeEngine, db_path: Path) -> None:
    engine = make_engine()
    engine.add(None, "a cat", wait=True)
    files = [db_path, db_path.with_name(db_path.name + "-wal")]
    eventually(lambda: engine.search(None, "warm up the worker").mode == "hybrid")
    before = [file.read_bytes() for file in files]
    for i in range(20):
        assert engine.search(None, f"feline {i}").mode == "hybrid"
    assert [file.read_bytes() for file in files] == before


# Ranking, end to end


def test_scores_mean_the_same_in_both_modes(make_engine: MakeEngine) -> None:
    hybrid = make_engine()
    for text in ("the cat sleeps on the sofa", "a kitten was seen", "the harbour is closed"):
        hybrid.add(None, text, wait=True)
    keyword = make_engine(intelligence="basic")
    for engine, mode in ((hybrid, "hybrid"), (keyword, "keyword")):
        found = engine.search(None, "the cat sleeps on the sofa")
        scores = [hit.score for hit in found.ranking.hits]
        assert found.mode == mode
        assert scores[0] == pytest.approx(1.0)
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] >= 0
    assert texts(hybrid.search(None, "the cat sleeps on the sofa")) == [
        "the cat sleeps on the sofa",
        "a kitten was seen",
    ]


def test_the_nearest_of_another_user_never_push_out_ones_own(make_engine: MakeEngine) -> None:
    engine = make_engine()
    for i in range(300):
        engine.add("other", f"cat {i}", check_duplicates=False)
    mine = engine.add("me", "a kitten and a dog and a car", wait=True).added.id
    eventually(lambda: indexed(engine))
    assert ids(engine.search("me", "feline", limit=5)) == [mine]
    assert ids(engine.search("me", "cat", limit=5)) == [mine]
    assert len(engine.search("other", "feline", limit=5).ranking.hits) == 5


def test_a_session_of_the_same_name_of_another_user_stays_apart(make_engine: MakeEngine) -> None:
    engine = make_engine()
    session = {"session_id": "monday"}
    for text in ("I saw a kitten", "the password is xyzzy", "and then I went to sleep"):
        engine.add("alice", text, metadata=session, wait=True)
        engine.add("bob", f"{text} too", metadata=session, wait=True)
    for user in ("alice", "bob"):
        found = engine.search(user, "feline password", limit=100)
        assert len(found.ranking.hits) >= 2
        assert {hit.record.user_id for hit in found.ranking.hits} == {user}


def test_a_filter_restricts_the_nearest_before_the_cut(make_engine: MakeEngine) -> None:
    engine = make_engine()
    for i in range(300):
        engine.add(None, f"cat {i}", check_duplicates=False)
    mine = engine.add(None, "a kitten and a dog and a car", metadata={"kind": "rule"}, wait=True).added.id
    eventually(lambda: indexed(engine))
    assert ids(engine.search(None, "feline", limit=5, metadata_filter={"kind": "rule"})) == [mine]


def test_the_best_part_of_a_long_text_counts(make_engine: MakeEngine) -> None:
    engine = make_engine()
    long = engine.add(None, "\n\n".join(["the harbour is closed"] * 200 + ["my kitten sleeps"]), wait=True).added.id
    for i in range(20):
        engine.add(None, f"a dog and a car {i}", wait=True)
    assert ids(engine.search(None, "feline")) == [long]


def test_another_models_vectors_are_never_mixed_in(
    make_engine: MakeEngine, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_engine()
    first.add(None, "my kitten sleeps", wait=True)
    first.close()
    other = TinyModel("other", "tiny-2")
    monkeypatch.setattr("r3_lite.embed.open_model", lambda name, cache_dir: other)
    second = make_engine(embedding_model="other")
    assert texts(second.search(None, "kitten")) == ["my kitten sleeps"]
    eventually(lambda: indexed(second))
    assert texts(second.search(None, "feline")) == ["my kitten sleeps"]
    assert other.texts == tiny_model.texts == ["my kitten sleeps"]


# Broken parts


def test_without_the_keyword_index_meaning_answers_with_a_warning(
    make_engine: MakeEngine, other_program: Callable[[], apsw.Connection]
) -> None:
    engine = make_engine()
    engine.add(None, "my kitten sleeps", wait=True)
    other_program().execute("DROP TABLE words")
    found = engine.search(None, "feline kitten")
    assert texts(found) == ["my kitten sleeps"]
    assert "keyword index" in found.warning
    assert found.mode == "hybrid"


def test_without_vectors_keywords_answer_with_a_warning(
    make_engine: MakeEngine, other_program: Callable[[], apsw.Connection]
) -> None:
    engine = make_engine()
    engine.add(None, "my kitten sleeps", wait=True)
    other_program().execute("ALTER TABLE chunks RENAME COLUMN embedding TO gone")
    found = engine.search(None, "kitten")
    assert texts(found) == ["my kitten sleeps"]
    assert "vectors cannot be read" in found.warning
    assert found.mode == "keyword"


@pytest.mark.parametrize("intelligence", ["full", "basic"])
def test_when_no_way_is_left_a_search_is_an_error_and_not_an_empty_answer(
    intelligence: str, make_engine: MakeEngine, other_program: Callable[[], apsw.Connection]
) -> None:
    engine = make_engine(intelligence=intelligence)
    engine.add(None, "my kitten sleeps", wait=True)
    connection = other_program()
    connection.execute("ALTER TABLE chunks RENAME COLUMN embedding TO gone")
    connection.execute("DROP TABLE words")
    with pytest.raises(StorageError, match="health_check"):
        engine.search(None, "kitten")


def test_the_worker_outlives_a_broken_table(
    make_engine: MakeEngine, other_program: Callable[[], apsw.Connection]
) -> None:
    engine = make_engine()
    engine.add(None, "my kitten sleeps", wait=True)
    connection = other_program()
    connection.execute("ALTER TABLE jobs RENAME TO jobs_gone")
    engine.indexer.mend()
    eventually(lambda: engine.indexer.last_error is not None)
    connection.execute("ALTER TABLE jobs_gone RENAME TO jobs")
    engine.add(None, "my dog barks")
    eventually(lambda: indexed(engine))
    assert texts(engine.search(None, "hound")) == ["my dog barks"]


def test_vectors_that_vanished_are_made_again(
    make_engine: MakeEngine, other_program: Callable[[], apsw.Connection]
) -> None:
    engine = make_engine()
    engine.add(None, "my kitten sleeps", wait=True)
    other_program().execute("DELETE FROM chunks; DELETE FROM jobs")
    engine.indexer.mend()
    eventually(lambda: indexed(engine))
    assert texts(engine.search(None, "feline")) == ["my kitten sleeps"]


def test_without_the_vector_extension_everything_else_works(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r3_lite.db._vector_extension", lambda: "/nonexistent/vec0")
    engine = make_engine()
    memory_id = engine.add(None, "my kitten sleeps", wait=True).added.id
    found = engine.search(None, "kitten")
    assert (ids(found), found.note) == ([memory_id], "Search goes by keyword: health_check says why.")
    engine.update(None, memory_id, content="my dog barks")
    engine.delete(None, memory_id)
    assert engine.page(None, limit=1, offset=0).total == 0


def test_a_held_write_lock_stops_writes_loudly_and_reads_not_at_all(
    make_engine: MakeEngine, other_program: Callable[[], apsw.Connection]
) -> None:
    engine = make_engine(busy_timeout=0.2)
    memory_id = engine.add(None, "my kitten sleeps", wait=True).added.id
    connection = other_program()
    connection.execute("BEGIN IMMEDIATE")
    for write in (
        lambda: engine.add(None, "another"),
        lambda: engine.update(None, memory_id, content="changed"),
        lambda: engine.delete(None, memory_id),
        lambda: engine.delete_all(None, confirm=True),
    ):
        with pytest.raises(StorageBusy, match="nothing was written"):
            write()
    assert texts(engine.search(None, "feline")) == ["my kitten sleeps"]
    assert engine.get(None, memory_id).content == "my kitten sleeps"
    assert engine.delete_all(None, confirm=False) == 1
    connection.execute("ROLLBACK")
    assert engine.add(None, "another", wait=True).indexed


def test_a_write_waits_for_a_lock_that_is_given_back_in_time(
    make_engine: MakeEngine, other_program: Callable[[], apsw.Connection]
) -> None:
    engine = make_engine(intelligence="basic", busy_timeout=30)
    memory_id = engine.add(None, "my kitten sleeps").added.id
    connection = other_program()
    connection.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(engine.update, None, memory_id, metadata={"a": 1})
        time.sleep(0.3)
        assert not waiting.done()
        connection.execute("ROLLBACK")
        assert waiting.result().metadata == {"a": 1}


def test_a_file_that_cannot_be_opened_is_tried_again(make_engine: MakeEngine, db_path: Path) -> None:
    engine = make_engine(intelligence="basic")
    db_path.mkdir(parents=True)
    with pytest.raises(StorageError, match="R3_DB_PATH"):
        engine.add(None, "my kitten sleeps")
    db_path.rmdir()
    assert not engine.add(None, "my kitten sleeps").added.duplicate


# Arguments that the engine itself checks


def test_an_update_that_would_make_metadata_too_large_changes_nothing(make_engine: MakeEngine) -> None:
    engine = make_engine(intelligence="basic")
    memory_id = engine.add(None, "a cat", metadata={"a": "x" * 40_000}).added.id
    with pytest.raises(InvalidParameters):
        engine.update(None, memory_id, content="a dog", metadata={"b": "x" * 40_000})
    assert engine.get(None, memory_id).content == "a cat"
    assert len(engine.history(None, memory_id, 10)[1]) == 1


def test_an_unknown_id_is_refused_by_every_call_that_takes_one(make_engine: MakeEngine) -> None:
    engine = make_engine(intelligence="basic")
    calls: list[Callable[[str], Any]] = [
        lambda memory_id: engine.get(None, memory_id),
        lambda memory_id: engine.update(None, memory_id, content="x"),
        lambda memory_id: engine.delete(None, memory_id),
        lambda memory_id: engine.history(None, memory_id, 10),
    ]
    for memory_id in ("", "x", "mem_" + "0" * 23, "mem_%"):
        for attempt in calls:
            with pytest.raises(MemoryNotFound):
                attempt(memory_id)


# With the bundled model


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with the bundled model, loaded once, and memories of several users for it."""
    path = tmp_path_factory.mktemp("bundled") / "memories.db"
    engine = Engine(Settings(db_path=path, synchronous="normal", embedding_model=None))
    engine.encoder.load()
    yield engine
    engine.close()


def test_other_words_find_a_memory_and_a_strange_topic_finds_nothing_strong(bundled: Engine) -> None:
    for text in (
        "Ada adopted a little cat from the animal shelter",
        "The quarterly report is due on Friday",
        "Proton Mail Bridge needs port 1143",
        "Grandmother's soup needs two carrots",
    ):
        assert bundled.add("notes", text, wait=True).indexed
    found = bundled.search("notes", "Which pet lives with her?")
    assert found.mode == "hybrid"
    assert texts(found)[0] == "Ada adopted a little cat from the animal shelter"
    assert texts(bundled.search("notes", "proton bridge"))[0] == "Proton Mail Bridge needs port 1143"
    strange = bundled.search("notes", "volcanic eruptions on the moons of Jupiter")
    assert all(hit.score < 0.3 for hit in strange.ranking.hits)
    assert strange.ranking.below > 0


def test_exact_words_score_above_other_words_and_those_above_none(bundled: Engine) -> None:
    for text in ("The cat sits on the mat", "A kitten is sitting on a rug", "Inflation rose by two percent"):
        bundled.add("scores", text, wait=True)
    found = bundled.search("scores", "The cat sits on the mat")
    exact, paraphrase = found.ranking.hits[:2]
    assert (exact.record.content, paraphrase.record.content) == (
        "The cat sits on the mat",
        "A kitten is sitting on a rug",
    )
    assert 1 >= exact.score > paraphrase.score > 0


def test_the_last_sentence_of_a_long_note_is_found_by_its_meaning(bundled: Engine) -> None:
    filler = "The committee discussed the budget and postponed the decision. "
    note = filler * (20_000 // len(filler)) + "The spare key lies under the blue flower pot."
    long = bundled.add("long", note, wait=True)
    for i in range(5):
        bundled.add("long", f"Invoice {i} was paid in March", wait=True)
    assert long.indexed
    found = bundled.search("long", "Where did we hide a duplicate to unlock our door?", limit=3)
    assert ids(found).count(long.added.id) == 1


def test_what_the_model_does_not_know_is_found_by_its_words_only(bundled: Engine) -> None:
    for text in ("✅", "ฉันชอบกินข้าวผัดทุกวัน", "I love 🍕 on Fridays", "The rocket launch is in May"):
        bundled.add("signs", text, wait=True)
    for unknown in ("🚀", "รถยนต์", "where is the 🐈"):
        found = bundled.search("signs", unknown)
        assert (found.ranking.hits, found.mode) == ((), "keyword")
        assert "does not know" in found.note
    for query in ("🍕", "where is the 🍕"):
        (hit,) = bundled.search("signs", query).ranking.hits
        assert hit.record.content == "I love 🍕 on Fridays"
    partly = bundled.search("signs", "rocket 🚀")
    assert (partly.ranking.hits[0].record.content, partly.mode) == ("The rocket launch is in May", "hybrid")
    assert "✅" not in [hit.record.content for hit in bundled.search("signs", "is everything done").ranking.hits]


def test_what_was_asked_for_before_comes_first_of_equals(engine: Engine) -> None:
    older, newer = (engine.add(None, f"tea number {n}", wait=True).added.id for n in ("one", "two"))

    def found() -> list[str]:
        return [hit.record.id for hit in engine.search(None, "tea").ranking.hits]

    assert found() == [newer, older]
    for _ in range(5):
        engine.get(None, older)
    engine.accesses.flush(engine.database)
    assert found() == [older, newer]
