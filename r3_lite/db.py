"""The SQLite file: opening it, its connections and transactions, and its migrations."""

import contextlib
import importlib.util
import os
import random
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from r3_lite.copies import copy_database
from r3_lite.errors import StorageError
from r3_lite.files import adjust_rights, beside, create, is_network_path, named_when_whole
from r3_lite.sqlite_errors import busy, not_writable, storage_errors

# "r3-l" in ASCII: tells our files from other SQLite files (PRAGMA application_id).
APPLICATION_ID = 0x72332D6C

# How long an existing file may take to change its journal mode, which needs the file alone.
_SWITCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered SQL script; the number is the schema version it leads to."""

    version: int
    name: str
    sql: str


def load_migrations() -> tuple[Migration, ...]:
    """Read the migrations in order, from the installed package or from the source tree beside it."""
    package = Path(__file__).parent
    directory = package / "migrations"
    if not directory.is_dir():
        directory = package.parent / "migrations"
    return tuple(
        Migration(int(path.name.split("_", 1)[0]), path.stem, path.read_text(encoding="utf-8"))
        for path in sorted(directory.glob("[0-9]*.sql"))
    )


class Database:
    """One SQLite file with one connection per thread.

    Nothing is opened before the first use, and a failed opening is tried again at the next one, so that a
    server can start, and say what is wrong, whatever the state of the file. A file that cannot be written is
    still read. `path` None keeps everything in memory, shared by the threads of this process.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        synchronous: str = "full",
        journal_mode: str = "auto",
        busy_timeout: float = 5.0,
        extension: str | None = None,
    ) -> None:
        self.path = path
        self.synchronous = synchronous
        self.busy_timeout = busy_timeout
        self._journal_mode = journal_mode
        self._extension = extension or _vector_extension()
        self._memory_uri = f"file:/r3-{os.getpid()}-{id(self)}?vfs=memdb"
        self._ready = False
        # Which file was opened: another may come to stand under its name.
        self._identity: tuple[int, int] | None = None
        self._open_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._local = threading.local()
        self._opened: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._keep_alive: apsw.Connection | None = None
        self.vector_error: str | None = None

    def connection(self) -> apsw.Connection:
        """Return this thread's connection, opening and migrating the file first where that is still to do.

        Raises StorageError when the file cannot be opened, is damaged, was written by a newer version, or was
        replaced or taken away since it was opened.
        """
        if not self._ready:
            with self._open_lock:
                if not self._ready:
                    with storage_errors(self.path):
                        self._prepare()
                    self._identity = self._present_identity()
                    self._ready = True
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if self._identity != self._present_identity():
            raise self._replaced(connection)
        if connection is not None and self._local.frozen not in (None, self._file_state()):
            self.close()
            connection = None
        if connection is None:
            with storage_errors(self.path):
                connection, self._local.frozen = self._open()
                self._local.connection = connection
                self._opened.add(connection)
        return connection

    def open_connections(self) -> int:
        """Return how many threads have a connection to the file at the moment."""
        return len(self._opened)

    def _replaced(self, connection: apsw.Connection | None) -> StorageError:
        """Keep the log of the old file off the one that now bears its name, and return the error to raise.

        SQLite would go on with the old file, which has no name any more: what it saves there is lost. At the next
        start it would apply the old log, which lies beside the path, to the new file and damage it. So the log is
        emptied into the old file.
        """
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return StorageError(
            "The database file was replaced or taken away while in use; nothing was written. Restart every client that "
            "uses it, or put the file back."
        )

    def _present_identity(self) -> tuple[int, int] | None:
        """Return which file stands under the path: its device and its number there. None without one."""
        if self.path is None:
            return None
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextlib.contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Run the block on one consistent snapshot. Takes no write lock and waits for no writer.

        Inside another transaction of this thread the block belongs to that one.
        """
        connection = self.connection()
        with storage_errors(self.path):
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def write(self, timeout: float | None = None) -> Iterator[apsw.Connection]:
        """Run the block in one transaction, committed at its end, rolled back when it raises.

        The write lock is taken at the start (a deferred transaction that upgrades fails at once when another
        process wrote in between). Raises StorageBusy when it is not free within `timeout` seconds, by default the
        busy timeout, and StorageError when the file cannot be written.
        """
        patience = self.busy_timeout if timeout is None else timeout
        deadline = time.monotonic() + patience
        connection = self._writable_connection()
        # Threads of this process queue here, which is faster than polling for SQLite's lock.
        if not self._write_lock.acquire(timeout=max(patience, 0.001)):
            raise busy()
        try:
            with storage_errors(self.path):
                connection.set_busy_timeout(int(max(deadline - time.monotonic(), 0) * 1000))
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        finally:
            connection.set_busy_timeout(int(self.busy_timeout * 1000))
            self._write_lock.release()

    def writable(self) -> bool:
        """Tell whether this thread's connection can write. Permissions that changed count from the next write on."""
        return not self.connection().readonly("main")

    def journal_mode(self) -> str:
        """Return the journal mode in force: "wal", "delete" or "memory"."""
        return str(self.connection().execute("PRAGMA journal_mode").get)

    def close(self) -> None:
        """Move what the log holds into the file and close this thread's connection, if it has one.

        The connections of other threads close with those or with the process: the file is complete all the same,
        should somebody copy it without its log.
        """
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                # Another thread may be writing or reading for a moment; then part of the log stays.
                for _ in range(40):
                    _, logged, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").get
                    if logged == moved:
                        break
                    time.sleep(0.05)
            connection.close()
            self._opened.discard(connection)
            self._local.connection = None

    def _writable_connection(self) -> apsw.Connection:
        connection = self.connection()
        # On a file that it may not write SQLite takes BEGIN IMMEDIATE for BEGIN and fails later.
        if connection.readonly("main") and self.path is not None:
            self.close()
            with storage_errors(self.path):
                adjust_rights(self.path)
            connection = self.connection()
            if connection.readonly("main"):
                raise not_writable(self.path)
        return connection

    def _prepare(self) -> None:
        if self.path is None:
            connection = self._keep_alive = self._connect(self._memory_uri)
            self._migrate(connection)
            return
        create(self.path)
        connection, _ = self._open()
        try:
            self._migrate(connection)
            if not connection.readonly("main"):
                adjust_rights(self.path)
        finally:
            connection.close()

    def _open(self) -> tuple[apsw.Connection, object]:
        """Return a connection and, for a file that SQLite could only open as unchangeable, the state it had."""
        if self.path is None:
            return self._connect(self._memory_uri), None
        try:
            return self._connect(str(self.path)), None
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            # Reading a WAL file creates its two side files. Where the folder forbids that and there is no log that
            # would have to be read, the file is complete as it stands (a read-only medium, say).
            state = self._file_state()
            if state is None or state[2]:
                raise
            return self._connect(self.path.absolute().as_uri() + "?immutable=1", apsw.SQLITE_OPEN_READONLY), state

    def _file_state(self) -> tuple[int, int, bool] | None:
        """Return what tells that another process wrote: time of change, size, and whether there is a log."""
        if self.path is None or not self.path.exists():
            return None
        status, log = self.path.stat(), beside(self.path, "-wal")
        return status.st_mtime_ns, status.st_size, log.exists() and log.stat().st_size > 0

    def _connect(self, name: str, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) -> apsw.Connection:
        uri = apsw.SQLITE_OPEN_URI if name.startswith("file:/") else 0
        connection = apsw.Connection(name, flags=flags | uri)
        connection.set_busy_timeout(int(self.busy_timeout * 1000))
        try:
            # The first of these reads the file.
            connection.execute(f"PRAGMA synchronous = {self.synchronous}; PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384")
            # 16 MB: pages that many commits change in turn are written to the file once instead of four times.
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            self._load_vectors(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _load_vectors(self, connection: apsw.Connection) -> None:
        if self._extension is None:
            self.vector_error = "the sqlite-vec extension is not installed"
            return
        try:
            connection.enable_load_extension(True)
            connection.load_extension(self._extension)
            self.vector_error = None
        except apsw.Error as error:
            self.vector_error = f"the sqlite-vec extension cannot be loaded ({type(error).__name__})"
        finally:
            connection.enable_load_extension(False)

    def _migrate(self, connection: apsw.Connection) -> None:
        migrations = load_migrations()
        newest = migrations[-1].version
        version, ours, empty = _identity(connection)
        if (not ours and not empty) or version > newest:
            # Not even the log of a file that is none of our business is moved into it.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if not ours:
                raise StorageError("The file is an SQLite database of another program. Set R3_DB_PATH to another file.")
            raise StorageError(
                "The database was written by a newer r3-lite. Upgrade r3-lite, or set R3_DB_PATH to another file.",
                schema_version=version,
            )
        if version == newest:
            if self._journal_mode != "auto" and not connection.readonly("main"):
                self._set_journal_mode(connection, self._journal_mode, _SWITCH_SECONDS)
            return
        if connection.readonly("main"):
            raise not_writable(self.path)
        if self.path is not None:
            mode = self._journal_mode
            if mode == "auto":
                mode = "delete" if is_network_path(self.path) else "wal"
            self._set_journal_mode(connection, mode, self.busy_timeout + 1)
        for migration in migrations:
            self._apply(connection, migration, version)

    def _apply(self, connection: apsw.Connection, migration: Migration, found: int) -> None:
        """Run one migration where it is still to do, after a backup if the file that was `found` held data."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have run it while this one waited for the lock.
            version = schema_version(connection)
            if version < migration.version:
                if 0 < version == found:
                    self._backup(version)
                connection.execute(migration.sql)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {migration.version}")
            connection.execute("COMMIT")
        except (apsw.SQLError, apsw.ConstraintError) as error:
            raise StorageError(
                "The database cannot be brought to this version of r3-lite; it was left as it is. "
                "Go on with the version that wrote it, and report this.",
                schema_version=version,
            ) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _backup(self, version: int) -> None:
        """Copy the committed state beside the file, while the caller holds the write lock."""
        if self.path is None:
            return
        target = beside(self.path, f".v{version}-{time.strftime('%Y%m%dT%H%M%S')}.backup")
        source = self._connect(str(self.path))
        try:
            with named_when_whole(target, overwrite=True) as unfinished:
                copy_database(source, unfinished)
        finally:
            source.close()

    def _set_journal_mode(self, connection: apsw.Connection, mode: str, patience: float) -> None:
        """Switch where it is another; after `patience` seconds the file keeps the mode it has (health_check tells)."""
        if self.path is None or connection.execute("PRAGMA journal_mode").get == mode:
            return
        deadline = time.monotonic() + patience
        connection.set_busy_timeout(0)
        while True:
            # Switching needs the file alone for a moment and does not wait by itself.
            with contextlib.suppress(apsw.BusyError):
                if connection.execute(f"PRAGMA journal_mode = {mode}").get == mode:
                    break
            if time.monotonic() > deadline:
                break
            time.sleep(random.uniform(0.005, 0.05))
        connection.set_busy_timeout(int(self.busy_timeout * 1000))


def schema_version(connection: apsw.Connection) -> int:
    """Return the number of the last migration that the file has seen; 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").get)


def _identity(connection: apsw.Connection) -> tuple[int, bool, bool]:
    """Return schema version, whether the file is ours and whether it is empty, all of the same moment.

    Between three statements another process could have made the file ours.
    """
    connection.execute("BEGIN")
    try:
        ours = connection.execute("PRAGMA application_id").get == APPLICATION_ID
        empty = not connection.execute("SELECT count(*) FROM sqlite_schema").get
        return schema_version(connection), ours, empty
    finally:
        connection.execute("ROLLBACK")


def _vector_extension() -> str | None:
    # Importing sqlite_vec would import numpy; only the path of its library is needed.
    spec = importlib.util.find_spec("sqlite_vec")
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    return str(Path(folder) / "vec0") if folder else None
