"""The whole file kept and brought back: one sound file, nothing acknowledged lost, running servers that go on."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from conftest import tiny_vector
from mcp_helpers import Server, environment

from r3_lite import backup, graph, history, keywords, store, vectors
from r3_lite.backup import Restored
from r3_lite.codes import HeldCodes
from r3_lite.copies import copy_database
from r3_lite.db import APPLICATION_ID, Database, load_migrations
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, StorageBusy, StorageError
from r3_lite.jobs import Job
from r3_lite.scope import scope_of
from r3_lite.store import NewMemory

MakeEngine = Callable[..., Engine]


def add(database: Database, content: str, user_id: str = "ada") -> str:
    with database.write() as connection:
        return store.insert(connection, NewMemory(user_id, content)).id


def contents(database: Database, user_id: str = "ada") -> list[str]:
    with database.read() as connection:
        return sorted(record.content for record in store.page(connection, user_id, 1000, 0)[1])


def restore(database: Database, file: Path) -> Restored:
    with backup.staged(database, file) as copy:
        return backup.restore(database, copy)


def generation(database: Database, user_id: str = "ada") -> int:
    with database.read() as connection:
        return store.generation(connection, user_id)


# Backup


def test_a_backup_is_one_sound_file_of_its_owner_alone(database: Database, db_path: Path, tmp_path: Path) -> None:
    add(database, "tea")
    database.connection()
    folder = tmp_path / "backups"
    folder.mkdir()
    made = backup.make(database, folder / "b.db")
    assert (made.memories, made.users, made.history) == (1, 1, 1)
    assert [path.name for path in folder.iterdir()] == ["b.db"]
    assert made.path.stat().st_mode & 0o777 == 0o600
    copy = apsw.Connection(str(made.path))
    assert copy.execute("PRAGMA journal_mode").get == "delete"
    assert copy.execute("PRAGMA integrity_check").get == "ok"
    assert copy.execute("SELECT content FROM memories").get == "tea"
    copy.close()


def test_without_a_name_it_lies_beside_the_file_and_two_do_not_meet(database: Database, db_path: Path) -> None:
    add(database, "tea")
    first, second = backup.make(database).path, backup.make(database).path
    assert first != second
    assert {first.parent, second.parent} == {db_path.parent}
    assert backup.copies_beside(db_path) == sorted([first, second])


def test_a_backup_overwrites_only_when_told(database: Database, tmp_path: Path) -> None:
    add(database, "tea")
    target = tmp_path / "b.db"
    target.write_text("precious")
    with pytest.raises(InvalidParameters, match="--force"):
        backup.make(database, target)
    assert target.read_text() == "precious"
    backup.make(database, target, overwrite=True)
    with backup.staged(database, target) as copy:
        assert copy.memories == 1


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_backup_never_overwrites_the_memories_themselves(database: Database, db_path: Path, suffix: str) -> None:
    add(database, "tea")
    with pytest.raises(InvalidParameters, match="memories themselves"):
        backup.make(database, db_path.with_name(db_path.name + suffix), overwrite=True)
    assert contents(database) == ["tea"]


def test_writers_go_on_while_a_backup_reads(database: Database, db_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(database, "before")

    def copy_while_others_write(source: apsw.Connection, target: Path) -> None:
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM memories").fetchall()
        other = Database(db_path, synchronous="normal")
        add(other, "meanwhile")
        other.close()
        source.execute("ROLLBACK")
        copy_database(source, target)

    monkeypatch.setattr(backup, "copy_database", copy_while_others_write)
    assert backup.make(database).memories == 2


def test_a_backup_while_processes_write_is_sound_and_complete_up_to_its_moment(
    database: Database, db_path: Path
) -> None:
    stop = threading.Event()
    done: list[str] = []

    def write() -> None:
        other = Database(db_path, synchronous="normal")
        while not stop.is_set():
            done.append(add(other, f"note {len(done)}"))
        other.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            acknowledged = len(done)
            made = backup.make(database)
            assert acknowledged <= made.memories
            copy = apsw.Connection(str(made.path))
            kept = {i for (i,) in copy.execute("SELECT id FROM memories")}
            copy.close()
            assert set(done[:acknowledged]) <= kept
    finally:
        stop.set()
        thread.join()


def test_a_damaged_file_gets_no_backup_and_leaves_none(database: Database, db_path: Path, tmp_path: Path) -> None:
    for number in range(300):
        add(database, f"note number {number} " * 20)
    database.close()
    data = bytearray(db_path.read_bytes())
    for page in range(10, len(data) // 4096 - 1):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    db_path.write_bytes(data)
    folder = tmp_path / "backups"
    folder.mkdir()
    with pytest.raises(StorageError, match="damaged"):
        backup.make(Database(db_path), folder / "b.db")
    assert list(folder.iterdir()) == []


def test_what_is_derived_is_mended_in_the_copy(database: Database, tmp_path: Path) -> None:
    add(database, "tea in the drawer")
    with database.write() as connection:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
        connection.execute("UPDATE users SET memories = 77")
    other_program = apsw.Connection(str(database.path))
    other_program.execute("INSERT INTO extractions (memory, method, version) VALUES (99, 'rules', '1')")
    other_program.close()
    backup.make(database, tmp_path / "b.db")
    copy = Database(tmp_path / "b.db")
    with copy.write() as connection:
        assert store.keyword_index_sound(connection)
        assert store.count(connection, "ada") == 1
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    copy.close()


def test_memories_in_memory_can_be_kept_as_a_file_that_is_named(tmp_path: Path) -> None:
    database = Database(None)
    add(database, "tea")
    with pytest.raises(InvalidParameters, match="Give the file"):
        backup.make(database)
    assert backup.make(database, tmp_path / "b.db").memories == 1


# Restore


def test_a_restore_brings_all_back_and_keeps_what_was_there(database: Database, tmp_path: Path) -> None:
    gone = add(database, "gone")
    add(database, "bob's", "bob")
    with database.write() as connection:
        store.delete(connection, "ada", gone)
    add(database, "old")
    file = backup.make(database, tmp_path / "b.db").path
    with database.write() as connection:
        store.delete_all(connection, "ada")
    add(database, "new")
    add(database, "eve's", "eve")
    restored = restore(database, file)
    assert (contents(database), contents(database, "bob"), contents(database, "eve")) == (["old"], ["bob's"], [])
    with database.read() as connection:
        assert [v.action for v in history.versions(connection, "ada", gone, 9)[1]] == ["created", "deleted"]
        assert store.totals(connection) == {"memories": 2, "users": 2, "history": 4}
        assert keywords.is_rare(connection, "old", scope_of(connection, "ada"), 5)
        assert list(keywords.matches(connection, ["new"], scope_of(connection, "ada"), 9)) == []
        assert len(keywords.matches(connection, ["old"], scope_of(connection, "ada"), 9)) == 1
    assert not restored.exchanged
    assert restored.kept is not None
    assert contents(Database(restored.kept)) == ["new"]
    assert contents(Database(restored.kept), "eve") == ["eve's"]


def test_nothing_is_left_of_a_restore_but_the_backup(database: Database, db_path: Path, tmp_path: Path) -> None:
    file = backup.make(database, tmp_path / "b.db").path
    assert restore(database, file).kept is None
    assert {path.name for path in db_path.parent.iterdir()} <= {"memories.db", "memories.db-wal", "memories.db-shm"}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["b.db"]


def left_by_a_killed(arguments: str, folder: Path) -> None:
    """Run a few lines in a process that is killed while it copies a database."""
    program = f"""
import os, sys
from pathlib import Path
from r3_lite import backup, copies
from r3_lite.db import Database
def die(source, target):
    target.write_text("half of what is remembered")
    os._exit(9)
database, file = Database(Path(sys.argv[1])), Path(sys.argv[2])
{arguments}
"""
    paths = [str(folder / "memories.db"), str(folder / "kept.db")]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (9, "")


KILLED = {
    "backup": "backup.copy_database = die; backup.make(database, file.with_name('new.db'))",
    "staging": "backup.copy_database = die; backup.staged(database, file).__enter__()",
    "safety copy": "copy = backup.staged(database, file).__enter__(); backup.copy_database = die; "
    "backup.restore(database, copy)",
}


@pytest.mark.parametrize("moment", KILLED)
def test_what_a_killed_process_left_is_named_has_no_final_name_and_is_removed_by_the_next(
    database: Database, db_path: Path, moment: str
) -> None:
    add(database, "tea")
    file = backup.make(database, db_path.with_name("kept.db")).path
    there = set(db_path.parent.iterdir())
    left_by_a_killed(KILLED[moment], db_path.parent)
    left = set(db_path.parent.iterdir()) - there
    assert left
    assert set(backup.copies_beside(db_path)) == left
    assert all(path.name.endswith(".part") for path in left)
    if moment == "backup":
        kept = restore(database, file).kept
        assert kept is not None
        kept.unlink()
    else:
        backup.make(database, db_path.with_name("new.db")).path.unlink()
    assert backup.copies_beside(db_path) == []
    assert contents(database) == ["tea"]


def test_logs_of_what_was_kept_are_named_too(database: Database, db_path: Path) -> None:
    add(database, "tea")
    names = ("memories.db.1.damaged", "memories.db.1.damaged-wal", "memories.db.2.backup-journal")
    for name in names:
        db_path.with_name(name).touch()
    assert [path.name for path in backup.copies_beside(db_path)] == list(names)


def test_every_table_is_as_in_the_backup(make_engine: MakeEngine, tmp_path: Path) -> None:
    engine = make_engine()
    engine.add("ada", "Ada works at Acme in Oslo", metadata={"session_id": "s"}, wait=True)
    engine.add("ada", "my kitten sleeps", wait=True)
    file = backup.make(engine.database, tmp_path / "b.db").path

    def state() -> dict[str, Any]:
        with engine.database.read() as connection:
            tables = "memories history entities mentions edges extractions vocabulary jobs attributes telling_words"
            whole: dict[str, Any] = {t: connection.execute(f"SELECT * FROM {t}").fetchall() for t in tables.split()}
            whole["chunks"] = connection.execute(
                "SELECT memory, space, user_id, code, embedding FROM chunks ORDER BY id"
            ).fetchall()
            return whole

    before = state()
    engine.add("ada", "another one", wait=True)
    engine.delete_all("ada", confirm=True)
    restore(engine.database, file)
    assert state() == before
    with engine.database.write() as connection:
        assert store.keyword_index_sound(connection)
        assert vectors.out_of_step(connection, 1) == 0
        assert graph.unread(connection) == 0
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        query = tiny_vector("my kitten sleeps").tobytes()
        near = vectors.nearest(connection, HeldCodes(), 1, query, scope_of(connection, "ada"), 5)
    assert round(near[0][1], 3) == 1.0
    assert engine.search("ada", "kitten").ranking.hits[0].record.content == "my kitten sleeps"


def test_triggers_work_after_a_restore(database: Database, tmp_path: Path) -> None:
    file = backup.make(database, tmp_path / "b.db").path
    restore(database, file)
    add(database, "tea")
    with database.read() as connection:
        assert store.count(connection, "ada") == 1
        assert len(keywords.matches(connection, ["tea"], scope_of(connection, "ada"), 9)) == 1


def test_generations_move_past_what_either_file_has_seen(database: Database, tmp_path: Path) -> None:
    add(database, "one")
    file = backup.make(database, tmp_path / "b.db").path
    for number in range(5):
        add(database, f"more {number}")
    add(database, "eve's", "eve")
    seen = generation(database), generation(database, "eve")
    restore(database, file)
    assert generation(database) > seen[0]
    assert generation(database, "eve") > seen[1]
    other = Database(tmp_path / "other.db")
    restore(other, file)
    assert generation(other) == 2
    assert contents(other) == ["one"]


def test_a_cached_answer_does_not_outlive_a_restore(make_engine: MakeEngine, tmp_path: Path) -> None:
    first, second = make_engine(intelligence="basic"), make_engine(intelligence="basic")
    first.add(None, "tea is in the first drawer")
    file = backup.make(first.database, tmp_path / "b.db").path
    first.delete_all(None, confirm=True)
    first.add(None, "tea is in the second drawer")
    for engine in (first, second):
        assert engine.search(None, "tea").ranking.hits[0].record.content == "tea is in the second drawer"
    restore(first.database, file)
    for engine in (first, second):
        found = engine.search(None, "tea").ranking.hits
        assert [hit.record.content for hit in found] == ["tea is in the first drawer"]


def test_models_keep_the_numbers_that_running_servers_know_them_by(tmp_path: Path) -> None:
    here, there = Database(tmp_path / "here.db"), Database(tmp_path / "there.db")

    def space_of(database: Database, *names: str) -> None:
        with database.write() as connection:
            for name in names:
                vectors.open_space(connection, name, 8, name)

    space_of(here, "first")
    space_of(there, "second", "first")
    add(there, "my kitten sleeps")
    with there.write() as connection:
        vector = tiny_vector("my kitten sleeps").astype("<f4").tobytes()
        job = connection.execute("SELECT seq FROM memories").get
        for space in (1, 2):
            vectors.store_vectors(connection, space, {Job(job, "ada", "my kitten sleeps", True, False): [vector]})
        connection.execute("DELETE FROM chunks WHERE space = 1")
    restore(here, backup.make(there, tmp_path / "b.db").path)
    with here.read() as connection:
        assert vectors.find_space(connection, "first") == 1
        assert connection.execute("SELECT space FROM chunks").fetchall() == [(1,)]
        assert vectors.out_of_step(connection, 1) == 0
        assert vectors.without_vector(connection, vectors.find_space(connection, "second")) == 1
        assert connection.execute("SELECT count(*) FROM jobs WHERE kind = 'embed' AND space = 2").get == 1


def test_a_backup_of_an_older_format_is_brought_to_the_present_one(tmp_path: Path) -> None:
    old = apsw.Connection(str(tmp_path / "old.db"))
    old.execute(load_migrations()[0].sql)
    old.execute(f"PRAGMA user_version = 1; PRAGMA application_id = {APPLICATION_ID}")
    old.execute(
        """INSERT INTO memories (id, user_id, content, hash, created_at, updated_at)
           VALUES ('m', 'ada', 'tea', 'h', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z')"""
    )
    old.close()
    before = (tmp_path / "old.db").read_bytes()
    database = Database(tmp_path / "data" / "memories.db")
    restore(database, tmp_path / "old.db")
    assert contents(database) == ["tea"]
    assert (tmp_path / "old.db").read_bytes() == before
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM jobs WHERE kind = 'extract'").get == 1


def unusable(kind: str, path: Path) -> None:
    if kind == "text":
        path.write_text("no database" * 1000)
    elif kind == "another program's":
        other = apsw.Connection(str(path))
        other.execute("CREATE TABLE a (b)")
        other.close()
    elif kind == "cut off":
        whole = Database(path, journal_mode="delete")
        for number in range(50):
            add(whole, f"note {number} " * 100)
        whole.close()
        path.write_bytes(path.read_bytes()[: 20 * 4096])
    elif kind == "empty":
        path.touch()


@pytest.mark.parametrize("kind", ["text", "another program's", "cut off", "empty", "missing"])
def test_what_is_no_sound_backup_changes_nothing(database: Database, tmp_path: Path, kind: str) -> None:
    add(database, "tea")
    unusable(kind, tmp_path / "b.db")
    with pytest.raises(InvalidParameters), backup.staged(database, tmp_path / "b.db"):
        pass
    assert contents(database) == ["tea"]
    assert backup.copies_beside(tmp_path / "data" / "memories.db") == []


def test_a_backup_of_a_newer_version_is_refused(database: Database, tmp_path: Path) -> None:
    add(database, "tea")
    file = backup.make(database, tmp_path / "b.db").path
    newer = apsw.Connection(str(file))
    newer.execute("PRAGMA user_version = 999")
    newer.close()
    with pytest.raises(StorageError, match="newer r3-lite"), backup.staged(database, file):
        pass


def test_the_file_itself_is_no_backup(database: Database, db_path: Path) -> None:
    add(database, "tea")
    with pytest.raises(InvalidParameters, match="itself"), backup.staged(database, db_path):
        pass


def test_memories_in_memory_are_not_restored_to(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameters, match="memory only"), backup.staged(Database(None), tmp_path / "b.db"):
        pass


def test_a_restore_that_fails_changes_nothing(
    database: Database, db_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = backup.make(database, tmp_path / "b.db").path
    add(database, "tea")

    def fail(*_: object) -> None:
        raise apsw.FullError

    monkeypatch.setattr(backup, "_move_generations", fail)
    with pytest.raises(StorageError, match="disk is full"):
        restore(database, file)
    assert contents(database) == ["tea"]
    assert backup.copies_beside(db_path) == []
    add(database, "coffee")
    with database.read() as connection:
        assert store.count(connection, "ada") == 2


def test_a_held_lock_is_waited_for_and_then_told(
    database: Database, db_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = backup.make(database, tmp_path / "b.db").path
    add(database, "tea")
    monkeypatch.setattr(backup, "_PATIENCE", 0.05)
    other = apsw.Connection(str(db_path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy):
        restore(database, file)
    other.execute("ROLLBACK")
    assert contents(database) == ["tea"]
    other.close()


def test_a_reader_sees_the_state_before_or_the_one_after(database: Database, db_path: Path, tmp_path: Path) -> None:
    for number in range(50):
        add(database, f"old {number}")
    file = backup.make(database, tmp_path / "b.db").path
    with database.write() as connection:
        store.delete_all(connection, "ada")
    for number in range(30):
        add(database, f"new {number}")
    stop = threading.Event()
    seen: set[tuple[int, int]] = set()

    def read() -> None:
        other = Database(db_path)
        while not stop.is_set():
            with other.read() as connection:
                rows = store.page(connection, "ada", 1000, 0)[1]
                seen.add((len(rows), store.count(connection, "ada")))
        other.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        restore(database, file)
        time.sleep(0.05)
    finally:
        stop.set()
        thread.join()
    assert seen <= {(30, 30), (50, 50)}
    assert (50, 50) in seen


def test_a_damaged_file_is_exchanged_and_kept(database: Database, db_path: Path, tmp_path: Path) -> None:
    add(database, "tea")
    file = backup.make(database, tmp_path / "b.db").path
    database.close()
    db_path.write_bytes(b"no database" * 1000)
    restored = restore(Database(db_path), file)
    assert restored.exchanged
    assert restored.kept is not None
    assert restored.kept.read_bytes() == b"no database" * 1000
    assert contents(Database(db_path)) == ["tea"]
    assert db_path.stat().st_mode & 0o777 == 0o600


def test_damage_that_shows_only_while_it_is_filled_leads_to_an_exchange(
    database: Database, db_path: Path, tmp_path: Path
) -> None:
    for number in range(300):
        add(database, f"note number {number} " * 20)
    file = backup.make(database, tmp_path / "b.db").path
    database.close()
    data = bytearray(db_path.read_bytes())
    for page in range(30, len(data) // 4096 - 1):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    db_path.write_bytes(data)
    restored = restore(Database(db_path), file)
    assert restored.exchanged
    assert len(contents(Database(db_path))) == 300


def test_running_servers_go_on_with_what_was_restored(tmp_path: Path) -> None:
    with Server(environment(tmp_path)) as server, Server(environment(tmp_path)) as other:
        first = server.saved("Tea is in the first drawer")
        database = Database(tmp_path / "memories.db", synchronous="normal")
        file = backup.make(database, tmp_path / "b.db").path
        assert not server.call("update_memory", memory_id=first, content="Tea is in the second drawer").is_error
        second = other.saved("Coffee is in the cellar")
        for each in (server, other):
            assert each.call("search_memory", query="tea").data["results"][0]["content"].endswith("second drawer")
            assert each.call("get_memory", memory_id=first).data["content"].endswith("second drawer")
            assert each.call("search_memory", query="coffee").data["results"][0]["id"] == second
        restore(database, file)
        database.close()
        for each in (server, other):
            assert each.call("search_memory", query="tea").data["results"][0]["content"].endswith("first drawer")
            assert each.call("get_memory", memory_id=first).data["content"].endswith("first drawer")
            assert each.call("get_all_memories").data["total"] == 1
            assert each.call("search_memory", query="coffee").data["results"] == []
            assert each.call("get_memory", memory_id=second).is_error
        third = other.saved("Honey is on the shelf")
        assert server.call("search_memory", query="honey").data["results"][0]["id"] == third
        assert server.call("health_check").data["status"] == "ok"


# Rewriting


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))


def test_a_rewritten_file_holds_nothing_that_was_deleted(make_engine: MakeEngine, db_path: Path) -> None:
    engine = make_engine()
    memory_id = engine.add(None, "the password is xyzzyplugh", wait=True).added.id
    engine.add(None, "my kitten sleeps", wait=True)
    engine.delete(None, memory_id)
    with engine.database.write() as connection:
        history.purge(connection, "default", memory_id=memory_id)
        store.rebuild_keyword_index(connection)
    assert backup.compact(engine.database)
    assert b"xyzzyplugh" not in bytes_of(db_path)
    assert b"my kitten sleeps" in bytes_of(db_path)
    with engine.database.read() as connection:
        assert vectors.out_of_step(connection, 1) == 0
        query = tiny_vector("my kitten sleeps").tobytes()
        near = vectors.nearest(connection, HeldCodes(), 1, query, scope_of(connection, "default"), 5)
    assert [round(cosine, 3) for _, cosine in near] == [1.0]


def test_a_reader_keeps_the_log_and_that_is_told(database: Database, db_path: Path) -> None:
    add(database, "tea")
    reader = Database(db_path, busy_timeout=0)
    database.busy_timeout = 0
    database.close()
    with reader.read() as connection:
        store.rows(connection)
        assert not backup.compact(database)
    assert backup.compact(database)


def test_a_rewrite_waits_for_no_writer_for_ever(db_path: Path) -> None:
    database = Database(db_path, busy_timeout=0.05)
    add(database, "tea")
    other = apsw.Connection(str(db_path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy):
        backup.compact(database)
    other.close()
