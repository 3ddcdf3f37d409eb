"""The background worker: it pays what the job table owes, once, whoever ran up the debt, and mends what is broken."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import filelock
import pytest
from conftest import TinyModel, eventually, without_root_powers

from r3_lite import history, jobs, store, vectors
from r3_lite import indexer as indexer_module
from r3_lite.db import Database
from r3_lite.embed import Encoder
from r3_lite.embed_models import BundledModel
from r3_lite.errors import ModelUnavailable
from r3_lite.extract import Method
from r3_lite.extractor import Extractor
from r3_lite.history import Version
from r3_lite.indexer import BATCH, Indexer
from r3_lite.store import NewMemory

ALICE = "alice"


@pytest.fixture
def make_indexer(database: Database, encoder: Encoder) -> Iterator[Callable[..., Indexer]]:
    made: list[Indexer] = []

    def make(database: Database = database, encoder: Encoder = encoder, history_days: int | None = None) -> Indexer:
        made.append(Indexer(database, encoder, Extractor(encoder), history_days=history_days))
        return made[-1]

    yield make
    for indexer in made:
        indexer.stop(timeout=20)


@pytest.fixture
def indexer(make_indexer: Callable[..., Indexer]) -> Indexer:
    return make_indexer()


def add(database: Database, *contents: str) -> list[int]:
    with database.write() as connection:
        return [store.insert(connection, NewMemory(ALICE, content), near=False).seq for content in contents]


def state(database: Database, indexer: Indexer) -> dict[str, int]:
    with database.read() as connection:
        counts = jobs.counts(connection, indexer.space)
        return counts | {"without_vector": vectors.without_vector(connection, indexer.space)}


def settled(database: Database, indexer: Indexer) -> Callable[[], bool]:
    return lambda: state(database, indexer) == {"pending": 0, "failed": 0, "without_vector": 0}


# Paying debts


def test_everything_owed_is_embedded_in_batches(
    database: Database, indexer: Indexer, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    write = Indexer._write

    def counted(indexer: Indexer, results: list[Any], method: Method) -> int:
        sizes.append(len(results))
        return write(indexer, results, method)

    monkeypatch.setattr(Indexer, "_write", counted)
    texts = [f"cat {n}" for n in range(BATCH + 10)]
    add(database, *texts)
    assert indexer.drain() == BATCH + 10
    assert sizes == [BATCH, 10]
    assert tiny_model.texts == texts
    assert state(database, indexer) == {"pending": 0, "failed": 0, "without_vector": 0}
    assert indexer.drain() == 0


def test_memories_from_before_the_model_are_owed_too(database: Database, indexer: Indexer) -> None:
    add(database, "cat", "dog")
    assert indexer.space is None
    assert indexer.ensure_space() == indexer.space == 1
    assert state(database, indexer)["pending"] == 2


def test_a_metadata_update_embeds_nothing(database: Database, indexer: Indexer, tiny_model: TinyModel) -> None:
    (seq,) = add(database, "cat")
    indexer.drain()
    with database.write() as connection:
        record = store.fetch(connection, [seq])[seq]
        store.update(connection, ALICE, record.id, metadata={"a": 1}, priority="low")
    indexer.drain()
    assert tiny_model.texts == ["cat"]


def test_one_memory_can_be_indexed_at_once(database: Database, indexer: Indexer, tiny_model: TinyModel) -> None:
    first, second = add(database, "cat", "dog")
    assert indexer.index_now(second)
    assert indexer.index_now(second)
    assert tiny_model.texts == ["dog"]
    with database.read() as connection:
        assert [vectors.is_indexed(connection, 1, seq) for seq in (first, second)] == [False, True]


def test_without_a_ready_model_nothing_is_counted_as_a_failure(database: Database, tmp_path: Path) -> None:
    encoder = Encoder(cache_dir=tmp_path)
    indexer = Indexer(database, encoder, Extractor(encoder))
    (seq,) = add(database, "cat")
    with pytest.raises(ModelUnavailable):
        indexer.index_now(seq)
    with database.read() as connection:
        owed = jobs.states(connection, indexer.space, 10)
    assert [(job.kind, job.attempts, job.last_error) for job in owed] == [("embed", 0, ""), ("extract", 0, "")]


def test_a_text_that_cannot_be_embedded_holds_up_no_other(
    database: Database, indexer: Indexer, tiny_model: TinyModel
) -> None:
    tiny_model.fails = lambda text: "CANARY" in text
    bad, good, other = add(database, "CANARY", "cat", "dog")
    assert indexer.drain() == 2
    with database.read() as connection:
        assert [vectors.is_indexed(connection, 1, seq) for seq in (bad, good, other)] == [False, True, True]
        (job,) = jobs.states(connection, 1, 10)
    assert (job.kind, job.attempts, job.last_error) == ("embed", 1, "ValueError")
    assert indexer.index_now(bad) is False


def test_what_failed_is_embedded_once_the_model_can(
    database: Database, indexer: Indexer, tiny_model: TinyModel
) -> None:
    tiny_model.fails = lambda text: True
    (seq,) = add(database, "cat")
    indexer.drain()
    tiny_model.fails = lambda text: False
    assert indexer.drain() == 0
    with database.write() as connection:
        connection.execute("UPDATE jobs SET not_before = ''")
    assert indexer.drain() == 1
    assert indexer.index_now(seq)


def test_a_text_changed_while_it_is_embedded_gets_the_vector_of_its_new_form(
    database: Database, indexer: Indexer, tiny_model: TinyModel
) -> None:
    (seq,) = add(database, "cat")
    with database.read() as connection:
        memory_id = store.fetch(connection, [seq])[seq].id

    def change(text: str) -> bool:
        if text == "cat":
            with database.write() as connection:
                store.update(connection, ALICE, memory_id, content="dog")
        return False

    tiny_model.fails = change
    indexer.drain()
    assert tiny_model.texts == ["cat", "dog"]
    assert state(database, indexer) == {"pending": 0, "failed": 0, "without_vector": 0}
    with database.read() as connection:
        assert vectors.cosines(connection, 1, indexer_vector("dog"), [seq]) == pytest.approx({seq: 1})


def indexer_vector(text: str) -> bytes:
    return TinyModel().embed_query(text).tobytes()


# The thread


def test_the_worker_embeds_what_is_added(database: Database, indexer: Indexer, db_path: Path) -> None:
    indexer.start()
    for n in range(5):
        add(database, f"cat {n}")
        indexer.wake()
        eventually(settled(database, indexer))
    assert indexer.last_error is None
    assert db_path.with_name("memories.db.indexer.lock").stat().st_mode & 0o777 == 0o600


def test_the_worker_finds_what_another_process_left(database: Database, indexer: Indexer, db_path: Path) -> None:
    indexer.start()
    eventually(settled(database, indexer))
    add(Database(db_path), "cat")
    eventually(settled(database, indexer))


def test_the_worker_waits_for_the_model(
    database: Database, make_indexer: Callable[..., Indexer], tiny_model: TinyModel, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    may_load = threading.Event()
    monkeypatch.setattr("r3_lite.embed.open_model", lambda name, cache: may_load.wait(20) and tiny_model)
    indexer = make_indexer(encoder=Encoder("tiny", cache_dir=tmp_path))
    add(database, "cat")
    indexer.start()
    assert state(database, indexer)["without_vector"] == 1
    may_load.set()
    eventually(settled(database, indexer))


def test_the_worker_asks_again_for_a_model_that_was_missing(
    database: Database, make_indexer: Callable[..., Indexer], tiny_model: TinyModel, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(indexer_module, "RELOAD_SECONDS", 0)
    monkeypatch.setattr("r3_lite.embed.RETRY_SECONDS", 0)
    answers: list[TinyModel | None] = [None, tiny_model]

    def open_model(name: str, cache: Path) -> TinyModel:
        found = answers.pop(0)
        if found is None:
            raise ModelUnavailable("not there yet")
        return found

    monkeypatch.setattr("r3_lite.embed.open_model", open_model)
    indexer = make_indexer(encoder=Encoder("tiny", cache_dir=tmp_path))
    add(database, "cat")
    indexer.start()
    eventually(settled(database, indexer))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "r3-indexer"]


def test_there_is_one_worker_however_often_it_is_started(indexer: Indexer) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: indexer.start(), range(8)))
    assert len(threads()) == 1
    indexer.stop(timeout=20)
    assert threads() == []


def test_there_is_no_worker_where_embeddings_are_off(database: Database, tmp_path: Path) -> None:
    encoder = Encoder(cache_dir=tmp_path, enabled=False)
    indexer = Indexer(database, encoder, Extractor(encoder))
    indexer.start()
    assert threads() == []


def test_the_worker_ends_between_batches(database: Database, indexer: Indexer, tiny_model: TinyModel) -> None:
    add(database, *[f"cat {n}" for n in range(10 * BATCH)])

    def end_soon(_: str) -> bool:
        indexer._stop.set()
        return False

    tiny_model.fails = end_soon
    indexer.start()
    eventually(lambda: threads() == [])
    assert len(tiny_model.texts) == BATCH
    assert state(database, indexer) == {"pending": 9 * BATCH, "failed": 0, "without_vector": 9 * BATCH}


def test_work_left_by_a_worker_that_died_is_done_by_the_next(
    database: Database, make_indexer: Callable[..., Indexer], tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(*_: object) -> int:
        raise Died

    add(database, *[f"cat {n}" for n in range(BATCH + 5)])
    first = make_indexer()
    with monkeypatch.context() as patch:
        patch.setattr("r3_lite.vectors.store_vectors", die)
        with pytest.raises(Died):
            first.drain()
    second = make_indexer()
    assert second.drain() == BATCH + 5
    with database.read() as connection:
        assert vectors.out_of_step(connection, 1) == 0
        assert connection.execute("SELECT count(*) FROM chunks").get == BATCH + 5


def test_only_one_process_embeds_at_a_time(
    database: Database, indexer: Indexer, tiny_model: TinyModel, db_path: Path
) -> None:
    other = filelock.FileLock(db_path.with_name("memories.db.indexer.lock"))
    with other:
        indexer.start()
        add(database, "cat")
        indexer.wake()
        eventually(lambda: not indexer._wake.is_set())
        indexer._work()
        assert tiny_model.texts == []
    eventually(settled(database, indexer))


def test_two_workers_embed_each_text_once(
    database: Database, make_indexer: Callable[..., Indexer], tiny_model: TinyModel, db_path: Path
) -> None:
    workers = [make_indexer(), make_indexer(Database(db_path, synchronous="normal"))]
    for worker in workers:
        worker.start()
    texts = [f"cat {n}" for n in range(100)]
    for text in texts:
        add(database, text)
        for worker in workers:
            worker.wake()
    eventually(settled(database, workers[0]))
    assert sorted(tiny_model.texts) == sorted(texts)


def test_adds_and_the_worker_do_not_stand_in_each_others_way(database: Database, indexer: Indexer) -> None:
    add(database, *[f"cat {n}" for n in range(500)])
    indexer.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add(database, f"dog {n}"), range(200)))
    indexer.wake()
    eventually(settled(database, indexer))
    assert indexer.last_error is None
    with database.write() as connection:
        assert store.rows(connection) == 700
        assert store.keyword_index_sound(connection)


def test_a_locked_file_is_told_and_gone_over_once_it_is_free(
    db_path: Path, make_indexer: Callable[..., Indexer]
) -> None:
    database = Database(db_path, synchronous="normal", busy_timeout=0.05)
    indexer = make_indexer(database)
    indexer.ensure_space()
    add(database, "cat")
    lock = apsw.Connection(str(db_path))
    lock.execute("BEGIN IMMEDIATE")
    indexer.start()
    eventually(lambda: indexer.last_error)
    assert "locked" in str(indexer.last_error)
    lock.execute("ROLLBACK")
    eventually(settled(database, indexer))
    eventually(lambda: indexer.last_error is None)
    lock.close()


def test_a_file_that_cannot_be_written_is_left_alone(
    database: Database, make_indexer: Callable[..., Indexer], tiny_model: TinyModel, db_path: Path
) -> None:
    first = make_indexer()
    first.ensure_space()
    add(database, "cat")
    database.close()
    db_path.chmod(0o444)
    with without_root_powers():
        indexer = make_indexer(Database(db_path))
        indexer._work()
    assert tiny_model.texts == []


# Mending


def test_a_start_mends_what_other_programs_broke(database: Database, make_indexer: Callable[..., Indexer]) -> None:
    add(database, "cat", "dog", "tea")
    make_indexer().drain()
    with database.write() as connection:
        connection.execute("DELETE FROM words_docsize WHERE id = 2")
        trigger = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'chunk_deleted'").get
        connection.execute("DROP TRIGGER chunk_deleted; DELETE FROM chunks WHERE memory = 3")
        connection.execute(trigger)
    indexer = make_indexer()
    indexer.start()

    def whole() -> bool:
        with database.write() as connection:
            return store.keyword_index_sound(connection) and vectors.out_of_step(connection, 1) == 0

    eventually(whole)
    eventually(settled(database, indexer))


def test_a_start_tries_again_what_was_given_up(
    database: Database, make_indexer: Callable[..., Indexer], tiny_model: TinyModel
) -> None:
    first = make_indexer()
    first.ensure_space()
    (seq,) = add(database, "cat")
    with database.write() as connection:
        for _ in range(jobs.MAX_ATTEMPTS):
            jobs.record_failure(connection, 1, "embed", seq, "ValueError")
    second = make_indexer()
    second.start()
    eventually(settled(database, second))
    assert tiny_model.texts == ["cat"]


def test_a_keyword_index_that_holds_the_wrong_words_is_rebuilt_on_request(database: Database, indexer: Indexer) -> None:
    add(database, "cat")
    indexer.start()
    eventually(settled(database, indexer))
    with database.write() as connection:
        connection.execute("INSERT INTO words (words, rowid, content) VALUES ('delete', 1, 'cat')")
        connection.execute("INSERT INTO words (rowid, content) VALUES (1, 'dog')")
        assert not store.keyword_index_sound(connection)
        before = store.generation(connection, ALICE)
    indexer.mend()

    def mended() -> bool:
        with database.write() as connection:
            return store.keyword_index_sound(connection) and store.generation(connection, ALICE) > before

    eventually(mended)


# Without vectors


def test_without_the_extension_there_is_no_space_and_no_error(
    db_path: Path, make_indexer: Callable[..., Indexer], tmp_path: Path
) -> None:
    database = Database(db_path, extension=str(tmp_path / "missing"))
    indexer = make_indexer(database)
    (seq,) = add(database, "cat")
    assert indexer.space is None
    assert indexer.ensure_space() is None
    assert indexer.index_now(seq) is False
    assert indexer.drain() == 0
    indexer._work()
    assert indexer.last_error is None


def test_a_file_with_vectors_is_served_without_the_extension(
    database: Database, make_indexer: Callable[..., Indexer], db_path: Path, tmp_path: Path
) -> None:
    add(database, "cat")
    make_indexer().drain()
    assert make_indexer(Database(db_path, extension=str(tmp_path / "missing"))).space is None


def test_a_model_in_memory_only_needs_no_lock_file(make_indexer: Callable[..., Indexer]) -> None:
    database = Database(None)
    indexer = make_indexer(database)
    add(database, "cat")
    indexer.start()
    eventually(settled(database, indexer))


# Reading


def test_a_text_that_needs_no_model_counts_as_read_by_the_best_method(
    database: Database, make_indexer: Callable[..., Indexer], tmp_path: Path
) -> None:
    """Else it would be read anew at every start."""
    encoder = Encoder(cache_dir=tmp_path)
    encoder._settle(BundledModel())
    add(database, "   ?")
    make_indexer(encoder=encoder).drain()
    with database.read() as connection:
        assert connection.execute("SELECT method FROM extractions").get == "rules+head"
    again = make_indexer(encoder=encoder)
    again._work()
    with database.read() as connection:
        assert jobs.due(connection, again.space, 10) == []


# Old versions


def remember(database: Database, versions: int) -> None:
    """A memory whose versions are of the year 2020."""
    with database.write() as connection:
        store.insert(connection, NewMemory(ALICE, "now", id="a"))
        old = [
            Version(n, "updated", str(n), {}, "medium", f"2020-01-01T00:00:00.{n:06d}Z") for n in range(1, versions + 1)
        ]
        history.write(connection, ALICE, "a", old, "2020-01-01T00:00:00.000000Z")


def kept(database: Database) -> list[int]:
    with database.read() as connection:
        return [v.version for v in history.versions(connection, ALICE, "a", 9999)[1]]


def test_old_versions_are_removed_in_parts_where_they_are_not_kept_for_ever(
    database: Database, make_indexer: Callable[..., Indexer], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(database, 12)
    parts: list[int] = []
    real = history.expire

    def counted(connection: apsw.Connection, before: str, limit: int) -> int:
        parts.append(real(connection, before, limit))
        return parts[-1]

    monkeypatch.setattr("r3_lite.indexer.EXPIRE_BATCH", 5)
    monkeypatch.setattr("r3_lite.history.expire", counted)
    make_indexer(history_days=30).start()
    eventually(lambda: kept(database) == [12])
    assert parts == [5, 5, 1]


def test_by_default_every_version_is_kept(database: Database, indexer: Indexer) -> None:
    remember(database, 3)
    indexer.start()
    eventually(settled(database, indexer))
    assert kept(database) == [1, 2, 3]


def test_versions_younger_than_the_limit_are_kept(database: Database, make_indexer: Callable[..., Indexer]) -> None:
    remember(database, 3)
    indexer = make_indexer(history_days=36_500)
    indexer.start()
    eventually(settled(database, indexer))
    assert kept(database) == [1, 2, 3]


def test_old_versions_go_without_any_model_too(
    database: Database, make_indexer: Callable[..., Indexer], tmp_path: Path
) -> None:
    remember(database, 3)
    off = Encoder("tiny", cache_dir=tmp_path, enabled=False)
    indexer = make_indexer(encoder=off, history_days=30)
    indexer.start()
    eventually(lambda: kept(database) == [3])
    assert off.state == "off"
    assert state(database, indexer)["without_vector"] == 1
