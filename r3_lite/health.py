"""What health_check reports, every fact of it measured at the call."""

import contextlib
import os
import shutil
import time
from typing import Any, Literal

import apsw
import psutil

from r3_lite import __version__, graph, store, vectors
from r3_lite.db import schema_version
from r3_lite.engine import Engine
from r3_lite.errors import R3Error, StorageBusy
from r3_lite.files import is_network_path
from r3_lite.models import Health

Status = Literal["ok", "degraded", "error"]

# Seconds to wait for the write lock before it is reported as held.
LOCK_PATIENCE = 0.2
# Bytes that the disk should have left: room for a write-ahead log and a good many memories.
LEAST_SPACE = 100_000_000


def measure(engine: Engine) -> Health:
    """Return the state of file, index, model and cache, and what to do next where something is wrong.

    Tries the write lock for a moment. A keyword index that is out of step is rebuilt at once, vectors are left to
    the background worker. Never raises for a state that it can report.
    """
    problems: list[tuple[Status, str]] = []
    index: dict[str, Any] = {"pending": 0, "failed": 0, "without_vector": 0, "fts_ok": True}
    database = _database(engine, index, problems)
    counts = _counts(engine, index, problems)
    model = _model(engine, problems)
    entities = _graph(engine, problems)
    status: Status = "error" if any(s == "error" for s, _ in problems) else "degraded" if problems else "ok"
    return Health(
        status=status,
        database=database,
        counts=counts,
        index=index,
        model=model,
        graph=entities,
        cache={key: value for key, value in engine.cache_stats().items() if key in ("l1_size", "l2_size", "hit_rate")},
        redis=False,
        mem0=engine.settings.mem0_api_key is not None,
        uptime=round(time.monotonic() - engine.started, 1),
        memory={"used": _allocated(), "rss": psutil.Process().memory_info().rss},
        version=__version__,
        next_step=" ".join(text for _, text in problems) or "Nothing to do.",
    )


def _database(engine: Engine, index: dict[str, Any], problems: list[tuple[Status, str]]) -> dict[str, Any]:
    database = engine.database
    facts: dict[str, Any] = {
        "path": str(database.path or "in memory, gone when the server ends"),
        "size": _size(engine),
        "free": _free_space(engine, problems),
        "writable": False,
        "integrity": "unknown",
        "schema_version": 0,
        "journal_mode": "unknown",
    }
    try:
        connection = database.connection()
        facts["schema_version"] = schema_version(connection)
        facts["journal_mode"] = database.journal_mode()
        # SQLite examines the keyword index with the rest; that one can be rebuilt, and has its own check below.
        faults = [row[0] for row in connection.execute("PRAGMA quick_check") if "fts5" not in row[0].lower()]
        facts["integrity"] = "ok" if faults in ([], ["ok"]) else "damaged"
    except R3Error as error:
        if isinstance(error.__cause__, apsw.NotADBError | apsw.CorruptError):
            facts["integrity"] = "damaged"
        problems.append(("error", error.message))
        return facts
    except apsw.Error:
        facts["integrity"] = "damaged"
    if facts["integrity"] == "damaged":
        problems.append(("error", "The file is damaged: stop all servers and restore a backup."))
        return facts
    try:
        with database.write(timeout=LOCK_PATIENCE) as connection:
            if not store.keyword_index_sound(connection):
                index["fts_ok"] = False
                store.rebuild_keyword_index(connection)
                problems.append(("degraded", "The keyword index was out of step and has been rebuilt."))
        facts["writable"] = True
    except StorageBusy:
        problems.append(("degraded", "The write lock is held: wait for the process that holds it, or end it."))
    except R3Error as error:
        problems.append(("error", error.message))
    if database.path is not None and facts["journal_mode"] == "wal" and is_network_path(database.path):
        problems.append(("degraded", "The file lies on a network drive: set R3_JOURNAL_MODE=delete or move it."))
    return facts


def _counts(engine: Engine, index: dict[str, Any], problems: list[tuple[Status, str]]) -> dict[str, Any]:
    counts: dict[str, Any] = {"memories": 0, "users": 0, "history": 0}
    try:
        with engine.database.read() as connection:
            counts = store.totals(connection)
            space = engine.indexer.space
            index |= engine.coverage(connection)
            odd, ids = store.odd_rows(connection)
            astray = vectors.out_of_step(connection, space) if space is not None else 0
    except R3Error as error:
        if not any(status == "error" for status, _ in problems):
            problems.append(("error", error.message))
        return counts
    if odd:
        problems.append(
            (
                "degraded",
                f"{odd} memories have a date or number that another program wrote wrongly ({', '.join(ids)}…): no "
                "question finds them by date. Correct their created_at or metadata in the file.",
            )
        )
    if astray:
        problems.append(("degraded", f"{astray} vectors are out of step and are being mended."))
        engine.indexer.mend()
    if index["failed"]:
        problems.append(
            ("degraded", f"{index['failed']} memories could not be embedded or examined; a restart tries them again.")
        )
    if engine.indexer.last_error:
        problems.append(("degraded", f"Indexing is held up: {engine.indexer.last_error}"))
    return counts


def _graph(engine: Engine, problems: list[tuple[Status, str]]) -> dict[str, Any]:
    """Return how many entities and relations there are, by what they are found now, and how GLiNER stands."""
    extractor = engine.extractor
    facts: dict[str, Any] = {
        "entities": 0,
        "relations": 0,
        "method": "off" if engine.encoder.state == "off" else extractor.method,
        "gliner": extractor.gliner_state,
    }
    if extractor.gliner_state == "unavailable":
        problems.append(("degraded", f"Entities are found without GLiNER: {extractor.last_error}"))
    # What keeps the file from being read is among the problems already.
    with contextlib.suppress(R3Error), engine.database.read() as connection:
        facts |= graph.totals(connection)
    return facts


def _model(engine: Engine, problems: list[tuple[Status, str]]) -> dict[str, Any]:
    encoder, info = engine.encoder, engine.encoder.info
    if engine.database.vector_error:
        problems.append(
            ("degraded", f"Search goes by keyword only: {engine.database.vector_error}. Reinstall r3-lite.")
        )
    if encoder.state == "unavailable":
        problems.append(("degraded", f"Search goes by keyword only: {encoder.last_error}"))
    return {
        "name": info.name if info else engine.settings.embedding_model or "",
        "dimension": info.dimension if info else 0,
        "state": encoder.state,
        "last_error": encoder.last_error or "",
    }


def _free_space(engine: Engine, problems: list[tuple[Status, str]]) -> int:
    """Return the bytes left on the disk of the file; 0 where they cannot be told, or for memories in memory."""
    path = engine.database.path
    if path is None:
        return 0
    try:
        # The folder may still be to be made.
        folder = next(folder for folder in path.parents if folder.exists())
        free = shutil.disk_usage(folder).free
    except OSError:
        return 0
    if not os.access(folder, os.W_OK):
        problems.append(("degraded", "The folder of the file takes no new files: check the disk and its permissions."))
    if free < LEAST_SPACE:
        problems.append(("degraded", f"The disk of the file has {free // 1_000_000:,} MB left: free some space."))
    return free


def _size(engine: Engine) -> int:
    path = engine.database.path
    if path is None:
        return 0
    files = (path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.exists())


def _allocated() -> int:
    """Return the bytes that SQLite holds at the moment in this process."""
    return int(apsw.memory_used())
