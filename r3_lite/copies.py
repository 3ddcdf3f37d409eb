"""Copies of an SQLite file that may be in use, page by page: each is what was committed at one moment."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import apsw

from r3_lite.files import beside


def copy_database(source: apsw.Connection, target: Path) -> None:
    """Copy the committed state to a new or empty file, which is made 0600; nothing is left of it on failure.

    Takes one snapshot: with a write-ahead log nobody waits for it, with a rollback journal writers wait until it is
    done. The source may hold no transaction of its own. Raises what apsw raises.
    """
    target.touch(mode=0o600)
    copy = apsw.Connection(str(target))
    try:
        with copy.backup("main", source, "main") as backup:
            backup.step(-1)
    except BaseException:
        copy.close()
        target.unlink()
        raise
    copy.close()


@contextlib.contextmanager
def opened_to_read(path: Path) -> Iterator[apsw.Connection]:
    """Open any SQLite file without changing it or, unless it has a log that must be read, anything beside it."""
    log = beside(path, "-wal")
    unchanged = "" if log.exists() and log.stat().st_size else "&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{path.absolute().as_uri()}?mode=ro{unchanged}", flags=flags)
    try:
        yield connection
    finally:
        connection.close()
