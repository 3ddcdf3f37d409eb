"""What SQLite and the file system raise, as errors that tell the caller what to do."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import apsw

from r3_lite.errors import StorageBusy, StorageError


def busy() -> StorageBusy:
    """Return the error for a lock that another process holds for too long."""
    return StorageBusy("The database is locked by another process; nothing was written. Try again in a few seconds.")


def not_writable(path: Path | None) -> StorageError:
    """Return the error for a file, or a folder, without the right to write."""
    return StorageError(
        f"The database file {path} or its folder cannot be written. Check their permissions, or set R3_DB_PATH to "
        "another file."
    )


def is_damage(error: BaseException | None) -> bool:
    """Tell whether an error, or what caused it, means that the file itself is damaged or no database."""
    return isinstance(error, apsw.NotADBError | apsw.CorruptError) or (error is not None and is_damage(error.__cause__))


@contextlib.contextmanager
def storage_errors(path: Path | None) -> Iterator[None]:
    """Turn what SQLite and the file system raise in the block into StorageError or StorageBusy; `path` is named."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError) as error:
        raise busy() from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StorageError(
            f"The database file {path} is damaged or is not a database. It was left as it is: "
            "restore a backup, or set R3_DB_PATH to another file."
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, PermissionError) as error:
        raise not_writable(path) from error
    except apsw.FullError as error:
        raise StorageError("The disk is full; nothing was written. Free some space and try again.") from error
    except (apsw.IOError, OSError) as error:
        raise StorageError(
            f"The database file {path} cannot be used ({type(error).__name__}). Check the disk, or set R3_DB_PATH."
        ) from error
    except apsw.Error as error:
        # A table that another program changed or dropped, for one: the worker must survive it too.
        raise StorageError(
            f"The database does not do what was asked of it ({type(error).__name__}). Run health_check; "
            "restore a backup."
        ) from error
