"""What health_check reports while things are whole, and while one thing after another is broken."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest
from conftest import TinyModel
from mcp_helpers import eventually, indexed

from r3_lite import __version__
from r3_lite.engine import Engine
from r3_lite.errors import ModelUnavailable
from r3_lite.health import measure
from r3_lite.settings import Settings

MakeEngine = Callable[..., Engine]


@pytest.fixture
def whole(make_engine: MakeEngine) -> Engine:
    """An engine with two memories, both embedded."""
    engine = make_engine()
    engine.add("ada", "my kitten sleeps", wait=True)
    engine.add("bob", "my dog barks", wait=True)
    return engine


@pytest.fixture
def other_program(whole: Engine, db_path: Path) -> Iterator[apsw.Connection]:
    """A connection such as any other program could open on the file."""
    connection = apsw.Connection(str(db_path))
    connection.set_busy_timeout(5000)
    yield connection
    connection.close()


def verdict(engine: Engine) -> tuple[str, str]:
    health = measure(engine)
    return health.status, health.next_step


def test_a_fresh_install_is_ok_and_empty(make_engine: MakeEngine) -> None:
    health = measure(make_engine())
    assert (health.status, health.next_step) == ("ok", "Nothing to do.")
    assert health.counts == {"memories": 0, "users": 0, "history": 0}
    assert health.cache["hit_rate"] == "0.0%"


def test_every_fact_is_measured(whole: Engine, db_path: Path) -> None:
    kept = whole.search("ada", "kitten").ranking.hits[0].record.id
    assert whole.get("ada", kept) == whole.get("ada", kept)
    whole.records.forget("ada")
    whole.get("ada", kept)
    whole.delete("bob", whole.search("bob", "dog").ranking.hits[0].record.id)
    health = measure(whole)
    assert health.status == "ok"
    sizes = [path.stat().st_size for path in db_path.parent.iterdir() if path.name != "memories.db.indexer.lock"]
    assert health.database == {
        "path": str(db_path),
        "size": sum(sizes),
        "free": health.database["free"],
        "writable": True,
        "integrity": "ok",
        "schema_version": health.database["schema_version"],
        "journal_mode": "wal",
    }
    assert health.database["schema_version"] >= 1
    assert health.database["free"] > 0
    assert health.counts == {"memories": 1, "users": 1, "history": 3}
    assert health.index == {"pending": 0, "failed": 0, "without_vector": 0, "fts_ok": True}
    assert health.model == {"name": "tiny", "dimension": 8, "state": "ready", "last_error": ""}
    assert health.cache == {"l1_size": 0, "l2_size": 1, "hit_rate": "66.7%"}
    assert health.memory["rss"] > 10_000_000
    assert health.memory["used"] > 0
    assert health.version == __version__
    assert not health.redis
    json.dumps(health.model_dump(), allow_nan=False)


def test_with_embeddings_off_all_is_well_without_vectors(make_engine: MakeEngine) -> None:
    engine = make_engine(intelligence="basic")
    engine.add(None, "my kitten sleeps")
    health = measure(engine)
    assert (health.status, health.model["state"]) == ("ok", "off")
    assert (health.index["pending"], health.index["without_vector"]) == (0, 1)


def test_measuring_changes_no_byte_of_a_whole_file(whole: Engine, db_path: Path) -> None:
    eventually(lambda: measure(whole).status == "ok")
    before = db_path.read_bytes(), db_path.with_name("memories.db-wal").read_bytes()
    measure(whole)
    assert (db_path.read_bytes(), db_path.with_name("memories.db-wal").read_bytes()) == before


def test_a_held_write_lock_is_named_and_forgotten_when_it_is_free(
    whole: Engine, other_program: apsw.Connection
) -> None:
    other_program.execute("BEGIN IMMEDIATE")
    health = measure(whole)
    assert (health.status, health.database["writable"]) == ("degraded", False)
    assert "write lock" in health.next_step
    assert health.counts["memories"] == 2
    other_program.execute("ROLLBACK")
    assert verdict(whole) == ("ok", "Nothing to do.")


@pytest.mark.parametrize("intelligence", ["full", "basic"])
@pytest.mark.parametrize(
    "sabotage",
    [
        "INSERT INTO words (words) VALUES ('delete-all')",
        "DELETE FROM words_data",
        "DELETE FROM words_docsize",
        "UPDATE words_data SET block = zeroblob(20)",
        "INSERT INTO parts (parts) VALUES ('delete-all')",
        "DELETE FROM parts_data",
        "DELETE FROM parts_docsize",
        "UPDATE parts_data SET block = zeroblob(20)",
    ],
)
def test_a_keyword_index_out_of_step_is_named_and_rebuilt(
    sabotage: str, intelligence: str, whole: Engine, other_program: apsw.Connection, make_engine: MakeEngine
) -> None:
    whole.close()
    other_program.execute(sabotage)
    engine = make_engine(intelligence=intelligence)
    health = measure(engine)
    assert (health.status, health.index["fts_ok"], health.database["integrity"]) == ("degraded", False, "ok")
    assert "keyword index" in health.next_step
    assert verdict(engine) == ("ok", "Nothing to do.")
    assert [hit.record.content for hit in engine.search("ada", "kitten").ranking.hits] == ["my kitten sleeps"]


def test_a_dropped_keyword_index_is_an_error(whole: Engine, other_program: apsw.Connection) -> None:
    other_program.execute("DROP TABLE words")
    status, step = verdict(whole)
    assert status == "error"
    assert "backup" in step


@pytest.mark.parametrize(
    ("created_at", "metadata"),
    [
        ("30.11.2026", "{}"),
        ("", "{}"),
        ("yesterday", "{}"),
        ("2026-02-30T10:00:00.000000Z", "{}"),
        ("99999-01-01", "{}"),
        ("2026-11-30 10:00:00", "{}"),
        ("2026-11-30T10:00:00.000000Z", '{"a": 9e999}'),
    ],
)
def test_an_odd_row_of_another_program_breaks_nothing_and_is_named(
    whole: Engine, other_program: apsw.Connection, created_at: str, metadata: str
) -> None:
    other_program.execute(
        """INSERT INTO memories (id, user_id, content, metadata, hash, created_at, updated_at)
           VALUES ('odd', 'ada', 'my kitten is odd', ?2, 'h', ?1, ?1)""",
        (created_at, metadata),
    )
    for query in ("kitten", "kitten on 30 November 2026", "what did the kitten do yesterday"):
        assert "odd" in [hit.record.id for hit in whole.search("ada", query).ranking.hits]
    assert [
        record.metadata.get("a") for record in whole.page("ada", limit=5, offset=0).records if record.id == "odd"
    ] == ["9e999" if "9e999" in metadata else None]
    status, next_step = verdict(whole)
    assert status == "degraded"
    assert "1 memories have a date or number" in next_step
    assert "odd" in next_step


def test_vectors_out_of_step_are_named_and_mended(whole: Engine, other_program: apsw.Connection) -> None:
    whole.indexer.stop()
    other_program.execute("DELETE FROM chunks; DELETE FROM jobs")
    health = measure(whole)
    assert (health.status, health.index["without_vector"]) == ("degraded", 2)
    assert "out of step" in health.next_step


def test_mended_vectors_are_ok_again(whole: Engine, other_program: apsw.Connection) -> None:
    other_program.execute("DELETE FROM chunks; DELETE FROM jobs")
    eventually(lambda: verdict(whole) == ("ok", "Nothing to do.") and indexed(whole))


def test_failed_jobs_are_counted_and_named(make_engine: MakeEngine, tiny_model: TinyModel, db_path: Path) -> None:
    tiny_model.fails = lambda text: True
    engine = make_engine()
    engine.add(None, "my kitten sleeps")
    engine.indexer.stop()
    connection = apsw.Connection(str(db_path))
    connection.execute("UPDATE jobs SET attempts = 5")
    connection.close()
    health = measure(engine)
    assert (health.status, health.index["failed"]) == ("degraded", 1)
    assert "could not be embedded" in health.next_step


def test_a_missing_model_is_named_with_its_error(db_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str | None, cache_dir: Path) -> TinyModel:
        raise ModelUnavailable("The model is not there: download it.")

    monkeypatch.setattr("r3_lite.embed.open_model", fail)
    engine = Engine(Settings(db_path=db_path, embedding_model="some/model"))
    engine.add(None, "my kitten sleeps", wait=True)
    health = measure(engine)
    engine.close()
    assert (health.status, health.next_step) == (
        "degraded",
        "Search goes by keyword only: The model is not there: download it.",
    )
    assert health.model["name"] == "some/model"
    assert (health.model["state"], health.model["last_error"]) == (
        "unavailable",
        "The model is not there: download it.",
    )
    assert health.index["pending"] == 1


def test_a_missing_vector_extension_is_named(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r3_lite.db._vector_extension", lambda: "/nonexistent/vec0")
    engine = make_engine()
    engine.add(None, "my kitten sleeps", wait=True)
    status, step = verdict(engine)
    assert status == "degraded"
    assert "sqlite-vec" in step


def test_a_file_that_is_no_database_is_an_error_and_left_as_it_is(make_engine: MakeEngine, db_path: Path) -> None:
    engine = make_engine(intelligence="basic")
    db_path.parent.mkdir()
    db_path.write_bytes(b"no database" * 1000)
    health = measure(engine)
    assert (health.status, health.database["integrity"]) == ("error", "damaged")
    assert "backup" in health.next_step
    assert db_path.read_bytes() == b"no database" * 1000


def test_damaged_pages_are_an_error(make_engine: MakeEngine, db_path: Path) -> None:
    engine = make_engine(intelligence="basic", journal_mode="delete")
    for i in range(40):
        engine.add(None, f"memory {i} " + "word " * 50, check_duplicates=False)
    engine.database.close()
    page = apsw.Connection(str(db_path)).execute("SELECT rootpage FROM sqlite_schema WHERE name = 'history'").get
    data = bytearray(db_path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    db_path.write_bytes(data)
    health = measure(make_engine(intelligence="basic"))
    assert (health.status, health.database["integrity"]) == ("error", "damaged")
    assert "backup" in health.next_step


def test_a_folder_in_the_place_of_the_file_is_an_error_that_names_the_setting(
    make_engine: MakeEngine, db_path: Path
) -> None:
    db_path.mkdir(parents=True)
    health = measure(make_engine(intelligence="basic"))
    assert health.status == "error"
    assert "R3_DB_PATH" in health.next_step
    assert health.database["path"] == str(db_path)
    assert not health.database["writable"]


def test_a_network_drive_under_a_wal_file_is_named(whole: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r3_lite.health.is_network_path", lambda path: True)
    status, step = verdict(whole)
    assert status == "degraded"
    assert "R3_JOURNAL_MODE" in step


def test_two_faults_are_both_named(whole: Engine, other_program: apsw.Connection) -> None:
    whole.indexer.stop()
    other_program.execute("DELETE FROM chunks; DELETE FROM jobs; BEGIN IMMEDIATE")
    status, step = verdict(whole)
    assert status == "degraded"
    assert "write lock" in step
    assert "out of step" in step


def test_a_demo_says_that_it_keeps_nothing() -> None:
    engine = Engine(Settings(demo=True, intelligence="basic"))
    engine.add(None, "my kitten sleeps")
    health = measure(engine)
    engine.close()
    assert health.status == "ok"
    assert "in memory" in health.database["path"]
    assert health.counts["memories"] == 1


def test_a_disk_that_is_nearly_full_is_told(whole: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [99_999_999]
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=left[0]))
    assert verdict(whole) == ("degraded", "The disk of the file has 99 MB left: free some space.")
    left[0] = 100_000_000
    assert verdict(whole) == ("ok", "Nothing to do.")
    assert measure(whole).database["free"] == 100_000_000


def test_a_folder_that_takes_no_new_files_is_told(whole: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    status, next_step = verdict(whole)
    assert status == "degraded"
    assert "folder" in next_step


def test_a_disk_that_cannot_be_asked_is_no_fault(whole: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr("shutil.disk_usage", refuse)
    health = measure(whole)
    assert (health.status, health.database["free"]) == ("ok", 0)


def test_memories_in_memory_need_no_disk(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    assert measure(make_engine(demo=True)).status == "ok"
