"""The whole file, kept, brought back and cleared of what was deleted, while servers use it."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from r3_lite import store, vectors
from r3_lite.copies import copy_database, opened_to_read
from r3_lite.db import APPLICATION_ID, Database, load_migrations, schema_version
from r3_lite.errors import InvalidParameters, StorageError
from r3_lite.files import beside, named_when_whole, new_file, replace_database
from r3_lite.sqlite_errors import is_damage, storage_errors
from r3_lite.unfinished import clear, signature, unfinished_in

# How long a restore waits for the write lock.
_PATIENCE = 30.0
# Filled on their own: ids of spaces differ between files, and work is owed anew.
_APART = frozenset({"spaces", "chunks", "jobs", "users"})


@dataclass(frozen=True, slots=True)
class Copy:
    """A whole and sound file of memories, and how many memories, users and history entries it holds."""

    path: Path
    memories: int
    users: int
    history: int


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore came to: where the former file is kept, None if it was empty, and whether it was damaged.

    A damaged file was exchanged: servers that run on it have to be started again. Otherwise they go on.
    """

    kept: Path | None
    exchanged: bool


def make(database: Database, target: Path | None = None, *, overwrite: bool = False) -> Copy:
    """Write what is committed at this moment to one file (0600), by default beside the database, and examine it.

    The file gets its name only when it is whole and sound; what killed processes left beside it, or beside the
    database, is removed. Writers go on meanwhile (with a rollback journal they wait
    while it is copied). Raises InvalidParameters for a target that cannot be, StorageError for a damaged database.
    """
    source = database.connection()
    if target is None:
        target = _free_name(database.path, "backup")
    for folder in {target.parent, *([database.path.parent] if database.path else [])}:
        clear(folder)
    with new_file(target, overwrite=overwrite, never=database.path) as unfinished:
        with storage_errors(database.path):
            copy_database(source, unfinished)
        made = _examine(unfinished)
    return Copy(target, made.memories, made.users, made.history)


@contextlib.contextmanager
def staged(database: Database, file: Path) -> Iterator[Copy]:
    """Take a copy of a backup, bring it to the present schema and examine it; the copy goes with the block.

    Raises InvalidParameters for a file that is no sound backup of ours, StorageError for one of a newer version.
    """
    if database.path is None:
        raise InvalidParameters("Memories that are kept in memory only cannot be restored to. Leave --demo away.")
    if not file.is_file():
        raise InvalidParameters("There is no file of that name to restore.")
    if database.path.exists() and file.samefile(database.path):
        raise InvalidParameters("That is the file of the memories itself. Give the path of a backup.")
    database.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    clear(database.path.parent)
    begin = f".restore.{signature()}-"
    with tempfile.TemporaryDirectory(prefix=begin, suffix=".part", dir=database.path.parent) as folder:
        copy = Path(folder) / "memories.db"
        try:
            with opened_to_read(file) as source:
                _recognise(source)
                copy_database(source, copy)
            examined = _examine(copy)
        except (apsw.Error, StorageError) as error:
            if isinstance(error, StorageError) and not is_damage(error):
                raise
            raise InvalidParameters(
                "The file to restore is damaged or is no backup of r3-lite. Nothing was changed."
            ) from error
        yield examined


def restore(database: Database, copy: Copy) -> Restored:
    """Make the memories what a staged copy holds, all at once; what was there is kept as a backup beside it.

    One transaction: whoever reads sees the state before or the one after, and no cached answer outlives it. Raises
    StorageBusy when another process holds the write lock too long; then nothing has changed. Only where the present
    file is damaged the copy takes its place.
    """
    assert database.path is not None
    try:
        return Restored(_fill(database, copy.path), exchanged=False)
    except StorageError as error:
        if not is_damage(error):
            raise
    database.close()
    kept = _free_name(database.path, "damaged")
    with storage_errors(database.path):
        replace_database(database.path, copy.path, kept)
    return Restored(kept, exchanged=True)


def compact(database: Database) -> bool:
    """Write the file anew without what was deleted from it, and empty its log; tell whether the log is empty.

    Other processes may read; a writer waits. A reader that goes on keeps the log from being emptied. Raises
    StorageBusy when the file is not free.
    """
    connection = database.connection()
    with storage_errors(database.path):
        try:
            # The rewritten file may be larger than what memory should be taken for it.
            connection.execute("PRAGMA temp_store = FILE")
            connection.execute("VACUUM")
        finally:
            connection.execute("PRAGMA temp_store = MEMORY")
        blocked, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    return not blocked


def copies_beside(path: Path) -> list[Path]:
    """Return the backups and damaged files that were kept beside a database, and what was not finished there."""
    kept = {
        file
        for kind in ("backup", "damaged")
        for log in ("", "-wal", "-journal")
        for file in path.parent.glob(f"{path.name}.*.{kind}{log}")
    }
    return sorted(kept.union(unfinished_in(path.parent)))


def _examine(path: Path) -> Copy:
    """Check a copy, mend what is derived in it, and count. Raises StorageError when it is damaged."""
    copy = Database(path, journal_mode="delete")
    try:
        with copy.write() as connection:
            # The keyword index has its own check, and can be made anew.
            faults = [row[0] for row in connection.execute("PRAGMA integrity_check") if "fts5" not in row[0].lower()]
            if faults not in ([], ["ok"]):
                raise apsw.CorruptError
            _remove_orphans(connection)
            connection.execute(
                """UPDATE users SET memories = (SELECT count(*) FROM memories AS m WHERE m.user_id = users.user_id)
                   WHERE memories <> (SELECT count(*) FROM memories AS m WHERE m.user_id = users.user_id)"""
            )
            if not store.keyword_index_sound(connection):
                store.rebuild_keyword_index(connection)
            totals = store.totals(connection)
    finally:
        copy.close()
    return Copy(path, totals["memories"], totals["users"], totals["history"])


def _recognise(connection: apsw.Connection) -> None:
    version = schema_version(connection)
    if connection.execute("PRAGMA application_id").get != APPLICATION_ID or version == 0:
        raise InvalidParameters("The file to restore is no backup of r3-lite. Nothing was changed.")
    if version > load_migrations()[-1].version:
        raise StorageError(
            "The file to restore was written by a newer r3-lite. Upgrade r3-lite; nothing was changed.",
            schema_version=version,
        )


def _remove_orphans(connection: apsw.Connection) -> None:
    """Remove rows that belong to something that is not there. All that refers to another table is derived."""
    faults = connection.execute("PRAGMA foreign_key_check").fetchall()
    for table, number in {(table, number) for table, _, _, number in faults}:
        for key, _, parent, column, there, *_ in connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall():
            if key == number:
                connection.execute(f'DELETE FROM "{table}" WHERE "{column}" NOT IN (SELECT "{there}" FROM "{parent}")')


def _fill(database: Database, staged: Path) -> Path | None:
    """Exchange the content of every table in one transaction; return where the content before is kept."""
    assert database.path is not None
    kept = None
    try:
        with database.write(timeout=_PATIENCE) as connection:
            totals = store.totals(connection)
            if totals["memories"] or totals["history"]:
                kept = _keep(database.path)
            connection.execute("ATTACH ? AS restored", (str(staged),))
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
            # Tables come one after the other.
            connection.execute("PRAGMA defer_foreign_keys = ON")
            _exchange(connection, with_vectors=database.vector_error is None)
    except BaseException:
        if kept is not None:
            kept.unlink(missing_ok=True)
        raise
    finally:
        # The connection would keep triggers off, and the staged copy open.
        database.close()
    return kept


def _keep(path: Path) -> Path:
    """Keep the committed state beside the file. Under the lock, so that nothing that was acknowledged is missing."""
    kept = _free_name(path, "backup")
    # Through a connection of its own: that of the transaction cannot be copied from.
    with opened_to_read(path) as source, named_when_whole(kept) as unfinished:
        copy_database(source, unfinished)
    return kept


def _exchange(connection: apsw.Connection, *, with_vectors: bool) -> None:
    """Fill the tables from those of the schema "restored". Triggers are off: what they keep is copied or remade."""
    tables = _tables(connection)
    for table in reversed(tables):
        if table not in ("users", "spaces"):
            connection.execute(f'DELETE FROM main."{table}"')
    for table in tables:
        if table not in _APART:
            columns = ", ".join(f'"{name}"' for name in _columns(connection, table))
            connection.execute(f'INSERT INTO main."{table}" ({columns}) SELECT {columns} FROM restored."{table}"')
    _move_generations(connection)
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.execute("INSERT INTO parts (parts) VALUES ('rebuild')")
    connection.execute(
        """INSERT INTO jobs (space, kind, memory, created_at) SELECT 0, 'extract', seq, updated_at FROM memories
           WHERE seq NOT IN (SELECT memory FROM extractions)"""
    )
    if with_vectors:
        _exchange_vectors(connection)


def _exchange_vectors(connection: apsw.Connection) -> None:
    """Bring the vectors in under the ids that the file has for their models: running servers know models by these."""
    connection.execute(
        """INSERT INTO main.spaces (name, dimension, fingerprint, used_at)
           SELECT name, dimension, fingerprint, used_at FROM restored.spaces
           WHERE fingerprint NOT IN (SELECT fingerprint FROM main.spaces)"""
    )
    connection.execute(
        """INSERT INTO main.chunks (memory, space, user_id, code, embedding)
           SELECT c.memory, here.id, c.user_id, c.code, c.embedding FROM restored.chunks AS c
           JOIN restored.spaces AS there ON there.id = c.space
           JOIN main.spaces AS here ON here.fingerprint = there.fingerprint ORDER BY c.id"""
    )
    rows: list[Any] = connection.execute("SELECT id FROM main.spaces").fetchall()
    for (space,) in rows:
        vectors.heal(connection, space)


def _move_generations(connection: apsw.Connection) -> None:
    """Give each user's counters a value that neither file has seen: no answer kept by any process is valid then.

    Users who are in one file only keep, or get, their row: a counter that began again would meet old answers.
    """
    counters = [name for name in _columns(connection, "users") if name not in ("user_id", "memories")]
    there = "(SELECT {0} FROM restored.users AS r WHERE r.user_id = u.user_id)"
    moved = ", ".join(f"{name} = max({name}, coalesce({there.format(name)}, 0)) + 1" for name in counters)
    connection.execute(f"UPDATE main.users AS u SET memories = coalesce({there.format('memories')}, 0), {moved}")
    connection.execute(
        f"""INSERT INTO main.users (user_id, memories, {", ".join(counters)})
            SELECT user_id, memories, {", ".join(f"{name} + 1" for name in counters)} FROM restored.users
            WHERE user_id NOT IN (SELECT user_id FROM main.users)"""
    )


def _tables(connection: apsw.Connection) -> list[str]:
    """Return the ordinary tables in the order of their making, without those that virtual ones consist of."""
    rows: list[Any] = connection.execute(
        "SELECT name, sql FROM restored.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid"
    ).fetchall()
    virtual = tuple(f"{name}_" for name, sql in rows if sql.upper().startswith("CREATE VIRTUAL"))
    return [name for name, sql in rows if not f"{name}_".startswith(virtual)]


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    rows: Iterator[Any] = connection.execute(
        "SELECT name FROM pragma_table_xinfo(?, 'restored') WHERE hidden = 0", (table,)
    )
    return [name for (name,) in rows]


def _free_name(path: Path | None, kind: str) -> Path:
    if path is None:
        raise InvalidParameters("Give the file to write: memories that are kept in memory only have none beside them.")
    moment = time.strftime("%Y%m%dT%H%M%S")
    names = (beside(path, f".{moment}{f'-{n}' if n else ''}.{kind}") for n in count())
    return next(name for name in names if not name.exists())
