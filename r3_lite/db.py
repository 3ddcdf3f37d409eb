"""The SQLite file: opening it, its connections and transactions, its migrations and its permissions."""

import contextlib
import importlib.util
import os
import random
import re
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from r3_lite.errors import StorageBusy, StorageError

# "r3-l" in ASCII: tells our files from other SQLite files (PRAGMA application_id).
APPLICATION_ID = 0x72332D6C

# File systems on which the shared memory of WAL does not work between machines (sqlite.org/wal.html).
_NETWORK_FILE_SYSTEMS = re.compile(r"^(nfs\d?|cifs|smb\w*|afp\w*|afs|9p|ncpfs|ceph|gluster\w*|fuse(\..*)?|davfs\w*)$")


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


def is_network_path(path: Path) -> bool:
    """Tell whether `path` lies on a network or synchronised file system, by the machine's mount table."""
    import psutil

    mounts = [m for m in psutil.disk_partitions(all=True) if path.is_relative_to(m.mountpoint)]
    nearest = max(mounts, key=lambda m: len(m.mountpoint), default=None)
    return nearest is not None and bool(_NETWORK_FILE_SYSTEMS.match(nearest.fstype.lower()))


class Database:
    """One SQLite file with one connection per thread.

    Nothing is opened before the first use, and a failed opening is tried again at the next one, so that a
    server can start, and say what is wrong, whatever the state of the file. `path` None keeps everything in
    memory, shared by the threads of this process.
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
        self._open_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._local = threading.local()
        self._keep_alive: apsw.Connection | None = None
        self.vector_error: str | None = None

    def connection(self) -> apsw.Connection:
        """Return this thread's connection, opening and migrating the file first where that is still to do.

        Raises StorageError when the file cannot be opened, is damaged, or was written by a newer version.
        """
        if not self._ready:
            with self._open_lock:
                if not self._ready:
                    with _storage_errors():
                        self._prepare()
                    self._ready = True
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            with _storage_errors():
                connection = self._local.connection = self._connect()
        return connection

    @contextlib.contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Run the block on one consistent snapshot. Takes no write lock and waits for no writer."""
        connection = self.connection()
        with _storage_errors():
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
        busy timeout.
        """
        connection = self.connection()
        patience = self.busy_timeout if timeout is None else timeout
        # Threads of this process queue here, which is faster than polling for SQLite's lock.
        if not self._write_lock.acquire(timeout=max(patience, 0.001)):
            raise _busy()
        try:
            with _storage_errors():
                connection.set_busy_timeout(int(patience * 1000))
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

    def journal_mode(self) -> str:
        """Return the journal mode in force: "wal", "delete" or "memory"."""
        return str(self.connection().execute("PRAGMA journal_mode").get)

    def close(self) -> None:
        """Move what the log holds into the file and close this thread's connection.

        The connections of other threads close with those or with the process: the file is complete all the same,
        should somebody copy it without its log.
        """
        if self._ready:
            with contextlib.suppress(apsw.Error, StorageError):
                self.connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _prepare(self) -> None:
        if self.path is None:
            self._keep_alive = self._connect()
        else:
            _secure(self.path)
        connection = self._keep_alive or self._connect()
        try:
            self._migrate(connection)
        finally:
            if connection is not self._keep_alive:
                connection.close()

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        if self.path is None:
            connection = apsw.Connection(self._memory_uri, flags=flags)
        else:
            connection = apsw.Connection(str(self.path), flags=flags & ~apsw.SQLITE_OPEN_URI)
        connection.set_busy_timeout(int(self.busy_timeout * 1000))
        connection.execute(f"PRAGMA synchronous = {self.synchronous}; PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096")
        self._load_vectors(connection)
        return connection

    def _load_vectors(self, connection: apsw.Connection) -> None:
        try:
            connection.enable_load_extension(True)
            connection.load_extension(self._extension)
            connection.enable_load_extension(False)
            self.vector_error = None
        except apsw.Error as error:
            self.vector_error = f"the sqlite-vec extension cannot be loaded ({type(error).__name__})"

    def _migrate(self, connection: apsw.Connection) -> None:
        migrations = load_migrations()
        if schema_version(connection) == migrations[-1].version and _is_ours(connection):
            return
        if schema_version(connection) > migrations[-1].version:
            raise StorageError(
                "The database was written by a newer r3-lite. Upgrade r3-lite, or set R3_DB_PATH to another file.",
                schema_version=schema_version(connection),
            )
        if not _is_ours(connection) and connection.execute("SELECT count(*) FROM sqlite_schema").get:
            raise StorageError("The file is an SQLite database of another program. Set R3_DB_PATH to another file.")
        self._set_journal_mode(connection)
        for migration in migrations:
            self._apply(connection, migration)

    def _apply(self, connection: apsw.Connection, migration: Migration) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have run it while this one waited for the lock.
            if schema_version(connection) < migration.version:
                if schema_version(connection) > 0:
                    self._backup(schema_version(connection))
                connection.execute(migration.sql)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {migration.version}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _backup(self, version: int) -> None:
        """Copy the committed state beside the file, while the caller holds the write lock."""
        if self.path is None:
            return
        target = self.path.with_name(f"{self.path.name}.v{version}-{time.strftime('%Y%m%dT%H%M%S')}.backup")
        target.touch(mode=0o600)
        source, copy = self._connect(), apsw.Connection(str(target))
        try:
            with copy.backup("main", source, "main") as backup:
                backup.step(-1)
        finally:
            source.close()
            copy.close()

    def _set_journal_mode(self, connection: apsw.Connection) -> None:
        if self.path is None:
            return
        mode = self._journal_mode
        if mode == "auto":
            mode = "delete" if is_network_path(self.path) else "wal"
        deadline = time.monotonic() + self.busy_timeout + 1
        while True:
            # Switching needs the file alone for a moment and does not wait by itself.
            try:
                if connection.execute(f"PRAGMA journal_mode = {mode}").get == mode:
                    return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
            if time.monotonic() > deadline:
                return
            time.sleep(random.uniform(0.005, 0.05))


def schema_version(connection: apsw.Connection) -> int:
    """Return the number of the last migration that the file has seen; 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").get)


def _is_ours(connection: apsw.Connection) -> bool:
    return bool(connection.execute("PRAGMA application_id").get == APPLICATION_ID)


def _vector_extension() -> str:
    # Importing sqlite_vec would import numpy; only the path of its library is needed.
    spec = importlib.util.find_spec("sqlite_vec")
    folder = (spec.submodule_search_locations or [""])[0] if spec else ""
    return str(Path(folder) / "vec0")


def _secure(path: Path) -> None:
    """Create the folder (0700) and the file (0600) where missing; take others' rights from existing files."""
    missing = [p for p in (path.parent, *path.parent.parents) if not p.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    for file in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        if file.is_file() and file.stat().st_mode & 0o077 and os.access(file, os.W_OK):
            file.chmod(stat.S_IRUSR | stat.S_IWUSR)


def _busy() -> StorageBusy:
    return StorageBusy("The database is locked by another process; nothing was written. Try again in a few seconds.")


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    """Turn what SQLite and the file system raise into errors that tell the caller what to do."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise _busy() from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StorageError(
            "The database file is damaged or is not a database. It was left as it is: "
            "restore a backup, or set R3_DB_PATH to another file."
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, PermissionError) as error:
        raise StorageError(
            "The database file or its folder cannot be written. Check its permissions, or set R3_DB_PATH."
        ) from error
    except apsw.FullError as error:
        raise StorageError("The disk is full; nothing was written. Free some space and try again.") from error
    except (apsw.IOError, OSError) as error:
        raise StorageError(
            f"The database file cannot be used ({type(error).__name__}). Check the disk, or set R3_DB_PATH."
        ) from error
    except apsw.Error as error:
        # A table that another program changed or dropped, for one: the worker must survive it too.
        raise StorageError(
            f"The database does not do what was asked of it ({type(error).__name__}). Run health_check; "
            "restore a backup."
        ) from error
