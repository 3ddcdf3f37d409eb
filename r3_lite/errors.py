"""The errors that r3-lite raises, each with the code that a client sees.

    R3Error
    ├── InvalidParameters   INVALID_PARAMETERS   the caller's arguments
    ├── MemoryNotFound      MEMORY_NOT_FOUND     no such memory for this user
    ├── RateLimitExceeded   RATE_LIMIT_EXCEEDED  too many calls a minute
    ├── StorageError        STORAGE_ERROR        the file cannot be read or written
    │   └── StorageBusy     STORAGE_BUSY         another process holds the write lock; retry
    ├── ImportFailed        IMPORT_ERROR         the file to import
    ├── Mem0Failed          MEM0_API_ERROR       Mem0, which memories are to come from
    └── ModelUnavailable    MODEL_UNAVAILABLE    the embedding model

Every message says what is wrong and what to do next. None repeats argument values, file contents or keys.
"""

from typing import Any, ClassVar


class R3Error(Exception):
    """Base of all errors that a caller can act upon. `details` holds plain JSON values only."""

    code: ClassVar[str] = "STORAGE_ERROR"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidParameters(R3Error):
    """An argument is missing, of the wrong shape or out of range."""

    code = "INVALID_PARAMETERS"


class MemoryNotFound(R3Error):
    """The id names no memory of this user."""

    code = "MEMORY_NOT_FOUND"


class RateLimitExceeded(R3Error):
    """The user has made too many calls of a kind within a minute; `details` hold limit and retry_after (seconds)."""

    code = "RATE_LIMIT_EXCEEDED"


class StorageError(R3Error):
    """The database file cannot be opened, read or written."""

    code = "STORAGE_ERROR"


class StorageBusy(StorageError):
    """Another process kept the write lock for longer than the busy timeout. Nothing was written."""

    code = "STORAGE_BUSY"


class ImportFailed(R3Error):
    """The import source cannot be read or is not in a known format. Nothing was imported."""

    code = "IMPORT_ERROR"


class Mem0Failed(R3Error):
    """Mem0 does not answer, refuses, or answers what cannot be read. Nothing was imported."""

    code = "MEM0_API_ERROR"


class ModelUnavailable(R3Error):
    """The embedding model is not there or cannot be loaded; keyword search goes on working."""

    code = "MODEL_UNAVAILABLE"
