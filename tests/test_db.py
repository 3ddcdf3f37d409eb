"""The file: who may read it, how it comes to be, what happens when it cannot be used, and its transactions."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from conftest import on_file_system, without_root_powers

from r3_lite import db, keywords, store
from r3_lite.copies import copy_database
from r3_lite.db import APPLICATION_ID, Database, Migration, load_migrations, schema_version
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, StorageBusy, StorageError
from r3_lite.filters import compile_filter
from r3_lite.health import measure
from r3_lite.scope import scope_of

INSERT = """INSERT INTO memories (id, user_id, content, hash, created_at, updated_at)
            VALUES (?1, 'u', ?1, ?1, '2024-01-01T00:00:00.000000Z', '2024-01-01T00:00:00.000000Z')"""


def add(database: Database, memory_id: str) -> None:
    with database.write() as connection:
        connection.execute(INSERT, (memory_id,))


def count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute("SELECT count(*) FROM memories").get)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def foreign_file(path: Path) -> apsw.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    other = apsw.Connection(str(path))
    other.execute("PRAGMA journal_mode = wal; CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)").fetchall()
    return other


def schema_of(path: Path) -> list[tuple[str, ...]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"))
    finally:
        connection.close()


@pytest.fixture
def migrate_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Pretend that this program has one more migration."""

    def patch(sql: str) -> None:
        one_more = Migration(load_migrations()[-1].version + 1, "one_more", sql)
        monkeypatch.setattr(db, "load_migrations", lambda: (*load_migrations(), one_more))

    return patch


# Files and their permissions


def test_making_a_database_object_touches_no_file(db_path: Path) -> None:
    Database(db_path)
    assert not db_path.parent.exists()


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_folder_and_files_are_the_users_alone(db_path: Path, umask: int, journal_mode: str) -> None:
    before = os.umask(umask)
    try:
        database = Database(db_path, journal_mode=journal_mode, synchronous="normal")
        with database.write() as connection:
            connection.execute(INSERT, ("a",))
            names = {path.name for path in db_path.parent.iterdir()}
            modes = {mode(path) for path in db_path.parent.iterdir()}
    finally:
        os.umask(before)
    assert mode(db_path.parent) == 0o700
    assert modes == {0o600}
    assert names >= {"memories.db", "memories.db-wal" if journal_mode == "wal" else "memories.db-journal"}
    database.close()


def test_loose_files_are_tightened(database: Database, db_path: Path) -> None:
    add(database, "a")
    files = [db_path, db_path.with_name("memories.db-wal"), db_path.with_name("memories.db-shm")]
    for file in files:
        file.chmod(0o644)
    Database(db_path).connection()
    assert {mode(file) for file in files} == {0o600}


def test_a_file_that_is_a_folder_is_named_in_the_error(db_path: Path) -> None:
    db_path.mkdir(parents=True)
    with pytest.raises(StorageError, match=str(db_path)):
        Database(db_path).connection()


def test_a_folder_that_is_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="R3_DB_PATH"):
        Database(tmp_path / "file" / "memories.db").connection()


# Whose file it is


def test_a_new_file_is_marked_as_ours(database: Database) -> None:
    connection = database.connection()
    assert connection.execute("PRAGMA application_id").get == APPLICATION_ID
    assert schema_version(connection) == load_migrations()[-1].version


def test_the_database_of_another_program_is_refused_and_left_alone(db_path: Path) -> None:
    foreign_file(db_path).close()
    db_path.chmod(0o644)
    before = digest(db_path)
    with pytest.raises(StorageError, match="another program"):
        Database(db_path).connection()
    assert (digest(db_path), mode(db_path)) == (before, 0o644)


def test_the_unfinished_log_of_another_program_is_left_alone(db_path: Path, tmp_path: Path) -> None:
    other = foreign_file(tmp_path / "theirs.db")
    db_path.parent.mkdir()
    shutil.copy(tmp_path / "theirs.db", db_path)
    shutil.copy(tmp_path / "theirs.db-wal", db_path.with_name("memories.db-wal"))
    other.close()
    before = digest(db_path), digest(db_path.with_name("memories.db-wal"))
    with pytest.raises(StorageError, match="another program"):
        Database(db_path).connection()
    assert (digest(db_path), digest(db_path.with_name("memories.db-wal"))) == before


def test_another_programs_file_is_called_so_whatever_its_version(db_path: Path) -> None:
    other = foreign_file(db_path)
    other.execute("PRAGMA user_version = 999")
    other.close()
    with pytest.raises(StorageError, match="another program"):
        Database(db_path).connection()


def test_the_file_of_a_newer_version_is_refused_and_left_alone(database: Database, db_path: Path) -> None:
    add(database, "a")
    database.connection().execute("PRAGMA user_version = 999")
    database.close()
    before = digest(db_path)
    with pytest.raises(StorageError, match="newer r3-lite") as caught:
        Database(db_path).connection()
    assert caught.value.details == {"schema_version": 999}
    assert digest(db_path) == before


def test_a_file_that_is_no_database_is_reported_and_left_alone(db_path: Path) -> None:
    db_path.parent.mkdir()
    db_path.write_bytes(b"not a database, but somebody's letter\n" * 200)
    before = digest(db_path)
    with pytest.raises(StorageError, match="left as it is"):
        Database(db_path).connection()
    assert digest(db_path) == before


def test_a_damaged_file_is_reported_and_left_alone(database: Database, db_path: Path) -> None:
    add(database, "a")
    database.close()
    damaged = bytearray(db_path.read_bytes())
    damaged[100:4096] = os.urandom(3996)
    db_path.write_bytes(damaged)
    before = digest(db_path)
    fresh = Database(db_path)
    with pytest.raises(StorageError, match="damaged"):
        count(fresh)
    with pytest.raises(StorageError, match="damaged"):
        add(fresh, "b")
    fresh.close()
    assert digest(db_path) == before


def test_a_failed_opening_is_tried_again(db_path: Path) -> None:
    db_path.parent.mkdir()
    db_path.write_bytes(b"not a database" * 1000)
    database = Database(db_path)
    with pytest.raises(StorageError):
        count(database)
    db_path.unlink()
    assert count(database) == 0


# Migrations


def test_migrations_are_numbered_in_order_and_each_number_is_there_once() -> None:
    numbers = [migration.version for migration in load_migrations()]
    assert numbers == sorted(set(numbers))


def test_a_new_file_needs_no_backup(database: Database, db_path: Path) -> None:
    add(database, "a")
    assert list(db_path.parent.glob("*.backup")) == []


def test_a_migration_keeps_the_rows_and_leaves_a_backup_of_the_state_before(
    database: Database, db_path: Path, migrate_to: Callable[[str], None]
) -> None:
    add(database, "a")
    before = schema_of(db_path)
    version = load_migrations()[-1].version
    migrate_to("CREATE TABLE second (a); INSERT INTO second SELECT id FROM memories;")
    upgraded = Database(db_path)
    assert upgraded.connection().execute("SELECT a FROM second").get == "a"
    (backup,) = db_path.parent.glob("*.backup")
    assert backup.name.startswith(f"memories.db.v{version}-")
    assert mode(backup) == 0o600
    assert schema_of(backup) == before
    copy = apsw.Connection(str(backup))
    assert copy.execute("SELECT id FROM memories").get == "a"
    assert copy.execute("PRAGMA integrity_check").get == "ok"
    assert schema_version(copy) == version
    copy.close()


def test_the_backup_of_a_migration_gets_its_name_when_it_is_whole(
    database: Database, db_path: Path, migrate_to: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, "a")
    migrate_to("CREATE TABLE second (a)")
    targets: list[Path] = []

    def copy(source: apsw.Connection, target: Path) -> None:
        targets.append(target)
        assert list(db_path.parent.glob("*.backup")) == []
        copy_database(source, target)

    monkeypatch.setattr("r3_lite.db.copy_database", copy)
    Database(db_path).connection()
    (backup,) = db_path.parent.glob("*.backup")
    assert targets != [backup]
    assert not targets[0].exists()


def test_a_file_is_migrated_once(database: Database, db_path: Path, migrate_to: Callable[[str], None]) -> None:
    add(database, "a")
    migrate_to("CREATE TABLE second (a)")
    for _ in range(3):
        Database(db_path).connection()
    assert len(list(db_path.parent.glob("*.backup"))) == 1


def test_a_failed_migration_leaves_the_file_as_it_was(
    database: Database, db_path: Path, migrate_to: Callable[[str], None]
) -> None:
    add(database, "a")
    database.close()
    before = digest(db_path)
    migrate_to("CREATE TABLE second (a); INSERT INTO second VALUES (1); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(StorageError, match="left as it is"):
        Database(db_path).connection()
    assert digest(db_path) == before
    assert not db_path.with_name("memories.db-wal").exists()


def test_a_backup_that_fails_stops_the_migration_and_leaves_nothing_half_done(
    database: Database, db_path: Path, migrate_to: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, "a")
    database.close()
    before = digest(db_path)

    class FullDisk(apsw.Connection):
        def backup(self, *args: object) -> apsw.Backup:
            raise apsw.FullError

    migrate_to("CREATE TABLE second (a)")
    monkeypatch.setattr(apsw, "Connection", FullDisk)
    with pytest.raises(StorageError, match="disk is full"):
        Database(db_path).connection()
    assert digest(db_path) == before
    assert list(db_path.parent.glob("*.backup")) == []


OPEN_AND_ADD = """
import sys
from pathlib import Path
from r3_lite import db
if sys.argv[3] == "second":
    known = db.load_migrations()
    db.load_migrations = lambda: (*known, db.Migration(known[-1].version + 1, "second", "CREATE TABLE second (a)"))
database = db.Database(Path(sys.argv[1]), synchronous="normal")
sys.stdin.read()
with database.write() as connection:
    connection.execute({insert!r}, (sys.argv[2],))
"""


@pytest.mark.parametrize("start", ["no file", "old schema"])
def test_processes_that_open_the_file_at_the_same_moment_all_succeed(
    database: Database, db_path: Path, tmp_path: Path, start: str
) -> None:
    program = OPEN_AND_ADD.format(insert=INSERT)
    which = "second" if start == "old schema" else "first"
    expected = 6
    if start == "old schema":
        add(database, "old")
        expected += 1
    command = [sys.executable, "-c", program, str(db_path)]
    processes = [
        subprocess.Popen([*command, f"p{n}", which], stdin=subprocess.PIPE, stderr=subprocess.PIPE) for n in range(6)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    problems = [process.communicate(timeout=60)[1].decode() for process in processes]
    assert problems == [""] * 6
    connection = apsw.Connection(str(db_path))
    assert connection.execute("SELECT count(*) FROM memories").get == expected
    connection.close()
    clean = tmp_path / "clean.db"
    Database(clean).connection()
    assert [row for row in schema_of(db_path) if row[1] != "second"] == schema_of(clean)


def test_threads_that_open_the_file_at_the_same_moment_all_succeed(db_path: Path) -> None:
    for round_ in range(10):
        path = db_path.with_name(f"{round_}.db")
        databases = [Database(path, synchronous="normal") for _ in range(6)]
        barrier = threading.Barrier(6)

        def open_and_add(n: int, databases: list[Database] = databases, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            add(databases[n], f"m{n}")
            databases[n].close()

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(open_and_add, range(6)))
        assert count(databases[0]) == 6


# Transactions


def test_a_block_that_ends_is_committed(database: Database, db_path: Path) -> None:
    add(database, "a")
    assert count(Database(db_path)) == 1


def test_a_block_that_raises_is_rolled_back_and_its_error_comes_through(database: Database) -> None:
    def insert_and_fail() -> None:
        with database.write() as connection:
            connection.execute(INSERT, ("a",))
            raise InvalidParameters("mine")

    with pytest.raises(InvalidParameters, match="mine"):
        insert_and_fail()
    assert count(database) == 0
    add(database, "b")


def test_a_failed_statement_spoils_no_later_write(database: Database) -> None:
    for _ in range(3):
        with pytest.raises(StorageError), database.write() as connection:
            connection.execute("INSERT INTO memories (id) VALUES ('incomplete')")
    add(database, "a")
    assert count(database) == 1


def test_a_read_that_raises_ends_its_transaction(database: Database) -> None:
    for _ in range(2):
        with pytest.raises(StorageError), database.read() as connection:
            connection.execute("SELECT * FROM nowhere")
        with pytest.raises(KeyError), database.read():
            raise KeyError
    assert not database.connection().in_transaction
    add(database, "a")


def test_a_read_left_in_the_middle_of_its_rows_holds_no_snapshot(database: Database) -> None:
    add(database, "a")
    add(database, "b")
    with database.read() as connection:
        rows = connection.execute("SELECT id FROM memories")
        next(rows)
    add(database, "c")
    assert count(database) == 3


def test_a_read_sees_one_moment(database: Database, db_path: Path) -> None:
    other = Database(db_path, synchronous="normal")
    add(other, "a")
    with database.read() as connection:
        seen = [connection.execute("SELECT count(*) FROM memories").get]
        add_in_thread = threading.Thread(target=add, args=(other, "b"))
        add_in_thread.start()
        add_in_thread.join()
        seen.append(connection.execute("SELECT count(*) FROM memories").get)
    assert seen == [1, 1]
    assert count(database) == 2


def test_a_read_inside_a_transaction_belongs_to_it(database: Database) -> None:
    with database.write() as connection:
        connection.execute(INSERT, ("a",))
        assert count(database) == 1
        assert connection.in_transaction
    with database.read() as connection:
        assert count(database) == 1
        assert connection.in_transaction
    assert not database.connection().in_transaction


def test_the_write_lock_is_taken_before_the_first_read(database: Database, db_path: Path) -> None:
    """A transaction that reads first and writes later would fail at once if another one wrote in between."""
    with database.write() as connection:
        connection.execute("SELECT count(*) FROM memories").fetchall()
        other = apsw.Connection(str(db_path))
        with pytest.raises(apsw.BusyError):
            other.execute("BEGIN IMMEDIATE")
        other.close()
        connection.execute(INSERT, ("a",))


@pytest.fixture
def lock(database: Database, db_path: Path) -> Iterator[apsw.Connection]:
    """Another process's connection, holding the write lock."""
    database.connection()
    other = apsw.Connection(str(db_path))
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


def test_a_write_waits_for_the_lock(database: Database, lock: apsw.Connection) -> None:
    threading.Timer(0.3, lock.execute, ("ROLLBACK",)).start()
    add(database, "a")
    assert count(database) == 1


def test_a_write_that_cannot_get_the_lock_fails_after_its_bound_and_works_once_it_is_free(
    database: Database, lock: apsw.Connection
) -> None:
    started = time.monotonic()
    with pytest.raises(StorageBusy, match="nothing was written"), database.write(timeout=0.2):
        raise AssertionError
    assert time.monotonic() - started >= 0.2
    lock.execute("ROLLBACK")
    add(database, "a")
    assert count(database) == 1


def test_a_thread_that_cannot_get_its_turn_fails_after_its_bound(database: Database) -> None:
    with database.write(), ThreadPoolExecutor(1) as pool:

        def impatient() -> None:
            with database.write(timeout=0.1):
                raise AssertionError

        with pytest.raises(StorageBusy):
            pool.submit(impatient).result()


def test_opening_and_reading_need_no_write_lock(database: Database, lock: apsw.Connection, db_path: Path) -> None:
    patient = Database(db_path, busy_timeout=600)
    assert count(patient) == 0
    assert schema_version(patient.connection()) == load_migrations()[-1].version


def test_parallel_writers_of_many_threads_lose_nothing(database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add(database, f"m{n}"), range(200)))
    assert count(database) == 200


def test_each_thread_has_its_own_connection_and_keeps_it(database: Database) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(database.connection).result()
        assert pool.submit(database.connection).result() is first
    assert database.connection() is not first


def test_closing_a_connection_lets_the_next_call_open_another(database: Database) -> None:
    add(database, "a")
    database.close()
    database.close()
    assert count(database) == 1


@pytest.mark.parametrize(("setting", "number"), [("full", 2), ("normal", 1)])
def test_commits_are_as_durable_as_set(db_path: Path, setting: str, number: int) -> None:
    connection = Database(db_path, synchronous=setting).connection()
    assert connection.execute("PRAGMA synchronous").get == number
    assert connection.execute("PRAGMA foreign_keys").get == 1


def test_a_full_disk_is_told_and_nothing_is_written(database: Database) -> None:
    pages = database.connection().execute("PRAGMA page_count").get
    database.connection().execute(f"PRAGMA max_page_count = {pages + 2}").fetchall()
    with pytest.raises(StorageError, match="disk is full"), database.write() as connection:
        connection.executemany(INSERT, [(f"{n}" * 100,) for n in range(1000)])
    assert count(database) == 0


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (apsw.BusyError, StorageBusy, "nothing was written"),
        (apsw.LockedError, StorageBusy, "nothing was written"),
        (apsw.ProtocolError, StorageBusy, "nothing was written"),
        (apsw.NotADBError, StorageError, "restore a backup"),
        (apsw.CorruptError, StorageError, "restore a backup"),
        (apsw.ReadOnlyError, StorageError, "permissions"),
        (apsw.CantOpenError, StorageError, "permissions"),
        (apsw.PermissionsError, StorageError, "permissions"),
        (PermissionError, StorageError, "permissions"),
        (apsw.FullError, StorageError, "disk is full"),
        (apsw.IOError, StorageError, "Check the disk"),
        (OSError, StorageError, "Check the disk"),
        (apsw.SQLError, StorageError, "health_check"),
        (apsw.ConstraintError, StorageError, "health_check"),
        (apsw.NoMemError, StorageError, "health_check"),
        (apsw.TooBigError, StorageError, "health_check"),
        (apsw.SchemaChangeError, StorageError, "health_check"),
        (apsw.MisuseError, StorageError, "health_check"),
        (apsw.ThreadingViolationError, StorageError, "health_check"),
    ],
)
def test_whatever_sqlite_raises_becomes_an_error_that_says_what_to_do(
    database: Database, error: type[Exception], expected: type[StorageError], words: str
) -> None:
    for transaction in (database.read, database.write):
        with pytest.raises(StorageError) as caught, transaction():
            raise error("CANARY")
        assert type(caught.value) is expected
        assert words in caught.value.message
        assert "CANARY" not in caught.value.message


# In memory


def test_a_database_in_memory_is_shared_by_the_threads_of_the_process() -> None:
    database = Database(None)

    def work(thread: int) -> int:
        for n in range(25):
            add(database, f"{thread}-{n}")
            count(database)
        return count(database)

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(8))) == 200


def test_databases_in_memory_are_apart() -> None:
    first, second = Database(None), Database(None)
    add(first, "a")
    assert (count(first), count(second)) == (1, 0)
    assert first.journal_mode() == "memory"


def test_a_reader_in_memory_does_not_stop_a_writer_for_good() -> None:
    database = Database(None)
    add(database, "a")
    inside, done = threading.Event(), threading.Event()

    def read_slowly() -> int:
        with database.read() as connection:
            seen = connection.execute("SELECT count(*) FROM memories").get
            inside.set()
            done.wait(0.3)
            return int(seen)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_slowly)
        inside.wait()
        add(database, "b")
        done.set()
        assert reading.result() == 1
    assert count(database) == 2


# Journal modes


def header_versions(path: Path) -> bytes:
    """File format versions: 1 for a rollback journal, 2 for WAL (bytes 18 and 19 of the header)."""
    return path.read_bytes()[18:20]


def test_a_local_file_uses_a_write_ahead_log(database: Database, db_path: Path) -> None:
    add(database, "a")
    assert database.journal_mode() == "wal"
    assert header_versions(db_path) == b"\2\2"


def test_a_rollback_journal_can_be_set_and_stays(db_path: Path) -> None:
    first = Database(db_path, journal_mode="delete", synchronous="normal")
    second = Database(db_path, synchronous="normal")
    for n in range(50):
        add((first, second)[n % 2], f"m{n}")
    assert second.journal_mode() == "delete"
    assert header_versions(db_path) == b"\1\1"
    assert sorted(path.name for path in db_path.parent.iterdir()) == ["memories.db"]


@pytest.mark.parametrize(("before", "after", "versions"), [("wal", "delete", b"\1\1"), ("delete", "wal", b"\2\2")])
def test_the_journal_mode_of_an_existing_file_can_be_changed(
    db_path: Path, before: str, after: str, versions: bytes
) -> None:
    first = Database(db_path, journal_mode=before)
    add(first, "a")
    first.close()
    second = Database(db_path, journal_mode=after)
    assert count(second) == 1
    assert second.journal_mode() == after
    assert header_versions(db_path) == versions


def test_a_file_in_use_keeps_its_journal_mode_and_is_opened_all_the_same(database: Database, db_path: Path) -> None:
    add(database, "a")
    assert count(Database(db_path, journal_mode="delete")) == 1
    assert database.journal_mode() == "wal"


def test_a_new_file_on_a_network_file_system_gets_a_rollback_journal(
    monkeypatch: pytest.MonkeyPatch, db_path: Path
) -> None:
    on_file_system(monkeypatch, "nfs4", db_path.parent)
    database = Database(db_path)
    add(database, "a")
    assert header_versions(db_path) == b"\1\1"


# Files that cannot be written


def test_a_file_without_write_permission_is_read_and_says_so_when_written(database: Database, db_path: Path) -> None:
    add(database, "a")
    database.close()
    db_path.chmod(0o444)
    with without_root_powers():
        fresh = Database(db_path)
        assert count(fresh) == 1
        assert not fresh.writable()
        with pytest.raises(StorageError, match=str(db_path)) as caught:
            add(fresh, "b")
        assert "R3_DB_PATH" in caught.value.message
        assert count(fresh) == 1
        db_path.chmod(0o600)
        add(fresh, "c")
        add(Database(db_path), "d")


@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_a_file_on_a_read_only_medium_is_read(db_path: Path, journal_mode: str) -> None:
    first = Database(db_path, journal_mode=journal_mode)
    add(first, "a")
    first.close()
    db_path.chmod(0o444)
    db_path.parent.chmod(0o555)
    with without_root_powers():
        fresh = Database(db_path, journal_mode=journal_mode)
        assert count(fresh) == 1
        with pytest.raises(StorageError, match=str(db_path)):
            add(fresh, "b")
        assert sorted(path.name for path in db_path.parent.iterdir()) == ["memories.db"]
    db_path.parent.chmod(0o700)


def test_a_log_that_cannot_be_read_is_never_passed_over(database: Database, db_path: Path, tmp_path: Path) -> None:
    """Without its side file the log's rows would be missing: an error is right, an old answer is not."""
    add(database, "a")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("memories.db", "memories.db-wal"):
        shutil.copy(db_path.with_name(name), copy / name)
    copy.chmod(0o555)
    with without_root_powers(), pytest.raises(StorageError, match="cannot be written"):
        count(Database(copy / "memories.db"))
    copy.chmod(0o700)


def test_a_file_that_became_writable_is_written_without_a_restart(database: Database, db_path: Path) -> None:
    add(database, "a")
    database.close()
    db_path.chmod(0o444)
    db_path.parent.chmod(0o555)
    with without_root_powers():
        fresh = Database(db_path)
        assert count(fresh) == 1
        db_path.parent.chmod(0o700)
        db_path.chmod(0o600)
        add(fresh, "b")
        assert count(fresh) == 2
        assert fresh.writable()


def test_a_file_that_only_others_can_write_shows_what_they_wrote(database: Database, db_path: Path) -> None:
    add(database, "a")
    database.close()
    db_path.parent.chmod(0o555)
    with without_root_powers():
        fresh = Database(db_path)
        assert count(fresh) == 1
    add(database, "b")
    with without_root_powers():
        assert count(fresh) == 2
    database.close()
    with without_root_powers():
        assert count(fresh) == 2
    db_path.parent.chmod(0o700)


def test_a_folder_without_write_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    path = tmp_path / "memories.db"
    with without_root_powers(), pytest.raises(StorageError, match=str(path)):
        Database(path).connection()
    tmp_path.chmod(0o700)
    Database(path).connection()


def test_an_old_schema_that_cannot_be_migrated_is_named(
    database: Database, db_path: Path, migrate_to: Callable[[str], None]
) -> None:
    add(database, "a")
    database.close()
    db_path.chmod(0o444)
    migrate_to("CREATE TABLE second (a)")
    with without_root_powers(), pytest.raises(StorageError, match=str(db_path)):
        Database(db_path).connection()


# The vector extension


def test_a_broken_extension_leaves_a_working_database(db_path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "vec0.so"
    broken.write_bytes(os.urandom(10))
    database = Database(db_path, extension=str(broken))
    add(database, "a")
    assert count(database) == 1
    assert database.vector_error is not None
    assert "cannot be loaded" in database.vector_error


def test_a_missing_extension_leaves_a_working_database(monkeypatch: pytest.MonkeyPatch, db_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    database = Database(db_path)
    monkeypatch.undo()
    add(database, "a")
    assert database.vector_error == "the sqlite-vec extension is not installed"


def test_the_extension_is_loaded_and_no_other_can_be(database: Database) -> None:
    connection = database.connection()
    assert database.vector_error is None
    assert str(connection.execute("SELECT vec_version()").get).startswith("v0.1.9")
    with pytest.raises(apsw.SQLError):
        connection.execute("SELECT load_extension('anything')")


# Through the engine


@pytest.mark.parametrize("folder_mode", [0o700, 0o555])
def test_on_a_file_that_cannot_be_written_everything_is_found_and_nothing_is_added(
    make_engine: Callable[..., Engine], db_path: Path, folder_mode: int
) -> None:
    first = make_engine()
    stored = first.add(None, "the cat sleeps", wait=True).added
    first.close()
    db_path.chmod(0o444)
    db_path.parent.chmod(folder_mode)
    with without_root_powers():
        engine = make_engine()
        found = engine.search(None, "kitten")
        assert [hit.record.content for hit in found.ranking.hits] == ["the cat sleeps"]
        assert (found.mode, found.warning) == ("hybrid", "")
        assert engine.page(None, limit=10, offset=0).total == 1
        assert engine.history(None, stored.id, 10)[0] == 1
        for write in (
            lambda: engine.add(None, "another"),
            lambda: engine.update(None, stored.id, content="changed"),
            lambda: engine.delete(None, stored.id),
            lambda: engine.delete_all(None, confirm=True),
        ):
            with pytest.raises(StorageError, match=str(db_path)):
                write()
        report = measure(engine)
        assert report.status == "error"
        assert (report.database["writable"], report.database["integrity"]) == (False, "ok")
        assert str(db_path) in report.next_step
        assert engine.indexer.last_error is None
    db_path.parent.chmod(0o700)
    db_path.chmod(0o600)
    assert not engine.add(None, "another").added.duplicate
    assert measure(engine).status == "ok"


def test_a_file_that_was_replaced_while_in_use_is_an_error_and_is_whole_after_a_restart(tmp_path: Path) -> None:
    """SQLite itself would save to the old file, which has no name any more, and damage the new one with its log."""
    path, other = tmp_path / "memories.db", tmp_path / "other.db"
    database, backup = Database(path), Database(other)
    for memory_id in "abcdef":
        add(database, memory_id)
    for memory_id in "xy":
        add(backup, memory_id)
    backup.close()
    other.replace(path)
    with pytest.raises(StorageError, match="Restart"):
        add(database, "lost")
    database.close()
    restarted = Database(path)
    assert count(restarted) == 2
    assert restarted.connection().execute("PRAGMA integrity_check").get == "ok"


def test_a_file_that_was_taken_away_while_in_use_is_an_error_and_can_be_put_back(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    database = Database(path)
    add(database, "old")
    path.rename(tmp_path / "away.db")
    with pytest.raises(StorageError, match="taken away"):
        add(database, "new")
    assert not path.exists()
    (tmp_path / "away.db").rename(path)
    assert count(database) == 1


def test_a_file_without_the_search_index_gets_it(tmp_path: Path) -> None:
    """A file of the second version: what 0003 derives is there after it, and vectors are owed anew."""
    path = tmp_path / "old.db"
    old = apsw.Connection(str(path))
    for migration in load_migrations()[:2]:
        old.execute(migration.sql)
    old.execute(f"PRAGMA user_version = 2; PRAGMA application_id = {APPLICATION_ID}")
    old.execute(
        """INSERT INTO spaces (name, dimension, fingerprint, used_at) VALUES ('tiny', 8, 'tiny-1', '2026');
           INSERT INTO memories (id, user_id, content, metadata, hash, created_at, updated_at) VALUES
               ('a', 'alice', 'green tea', '{"topic": "tea", "tags": ["x", 2, true]}', 'h', '2026', '2026'),
               ('b', 'bob', 'black tea', '{}', 'h', '2026', '2026');
           INSERT INTO chunks (memory, space, embedding) VALUES (1, 1, zeroblob(32));
           DELETE FROM jobs"""
    )
    old.close()
    upgraded = Database(path, synchronous="normal")
    with upgraded.read() as connection:
        for wanted in ({"topic": "tea"}, {"tags": "x"}, {"tags": 2}, {"tags": True}):
            assert [r.id for r in store.page(connection, "alice", 9, 0, compile_filter(wanted))[1]] == ["a"]
        assert store.page(connection, "alice", 9, 0, compile_filter({"tags": 1}))[0] == 0
        assert list(keywords.matches(connection, ["tea"], scope_of(connection, "alice"), 9)) == [1]
        owed = connection.execute("SELECT memory FROM jobs WHERE kind = 'embed' ORDER BY memory").fetchall()
        assert owed == [(1,), (2,)]
    upgraded.close()
    assert len(list(tmp_path.glob("old.db.v2-*.backup"))) == 1
